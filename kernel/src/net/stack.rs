//! Safe wrappers of the network stack's functions.
//!
//! The network stack is a separate object file, compiled from its own crates and linked to the kernel only in
//! programs that use the network. The two sides share C data types ([`hermit_interface::net`]):
//! `hermit_net_start` returns a [`StackInstance`], which is a pointer to the stack and a table of its
//! functions. The stack is not thread-safe. [`Network`] protects it by a sleeping mutex, and [`Stack`], the
//! value that has the methods, exists only while that mutex is held.
#![expect(unsafe_code, reason = "the stack is another object, known to the linker alone")]

use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::ptr;

use hermit_hal::clock;
use hermit_interface::net::{
    CallResult, Endpoint, NameConfig, OptionName, Services, SocketOption, StackConfig, StackInstance, result,
};
use hermit_interface::{Errno, to_usize};

use crate::sync::Mutex;

unsafe extern "C" {
    /// A [`hermit_interface::net::Start`].
    fn hermit_net_start(services: *const Services, settings: *const StackConfig) -> *const StackInstance;
}

/// The stack, protected by a sleeping mutex.
#[derive(Debug)]
pub(super) struct Network {
    mutex: Mutex,
    instance: &'static StackInstance,
}

// SAFETY: all uses of the stack, including those through `Stack`, hold `mutex`, so they are exclusive on any
// thread.
unsafe impl Send for Network {}
// SAFETY: a shared `Network` gives access to the stack only with `mutex` held.
unsafe impl Sync for Network {}

impl Network {
    /// Starts the stack. Returns `None` without memory.
    pub(super) fn start(services: &'static Services, settings: &'static StackConfig) -> Option<Self> {
        // SAFETY: `Start` requires arguments that are valid and unchanged for the life of the machine: both
        // are `'static`.
        let instance = unsafe { hermit_net_start(services, settings) };
        // SAFETY: `Start` returns null, or a pointer to an instance that is valid and unchanged for the life
        // of the machine.
        let instance = unsafe { instance.as_ref() }?;
        Some(Self { mutex: Mutex::new(), instance })
    }

    /// Locks the stack, sets its time, and calls `action` with it.
    #[inline]
    pub(super) fn with<R>(&self, action: impl FnOnce(&mut Stack) -> R) -> R {
        self.mutex.with(|| {
            let mut stack = Stack { instance: self.instance, now: clock::monotonic() };
            stack.advance();
            action(&mut stack)
        })
    }
}

impl Network {
    /// Returns the size in bytes of the buffers that the stack keeps for later connections.
    pub(super) fn kept_memory(&self) -> usize {
        self.mutex.with(|| {
            // SAFETY: the mutex is held, and this is the pointer that the stack has returned for its
            // functions.
            unsafe { (self.instance.calls.kept_memory)(self.instance.stack) }
        })
    }

    /// Frees the buffers that the stack keeps for later connections. Does nothing if a thread, possibly the
    /// current one, holds the lock.
    pub(super) fn reclaim(&self) {
        let _: Option<()> = self.mutex.try_with(|| {
            // SAFETY: the mutex is held, and this is the pointer that the stack has returned for its
            // functions.
            unsafe { (self.instance.calls.reclaim)(self.instance.stack) }
        });
    }

    /// Locks the stack permanently, at shutdown.
    pub(super) fn seize(&self) -> Stack {
        self.mutex.lock_forever();
        Stack { instance: self.instance, now: clock::monotonic() }
    }
}

/// The locked stack.
#[derive(Debug)]
pub(super) struct Stack {
    instance: &'static StackInstance,
    /// Time in nanoseconds at which the stack was locked.
    now: u64,
}

/// Converts the result of a call without a value.
fn success(number: CallResult) -> Result<(), Errno> {
    result(number).map(drop)
}

// SAFETY of all calls below: `Network` creates a `Stack` only with its mutex held, so the calls are
// exclusive; `own` is the pointer that the stack has returned for its functions, and all other pointers are
// to values that are borrowed until the call returns, as long as the stack uses them.
impl Stack {
    fn own(&self) -> *mut c_void {
        self.instance.stack
    }

    /// Sets the time that the stack uses for the following calls.
    fn advance(&mut self) {
        // SAFETY: `Stack` exists only with the mutex held; the arguments are valid until the call returns.
        unsafe { (self.instance.calls.advance)(self.own(), self.now) }
    }

    /// Receives frames, handles expired timers and transmits. Returns the time of the next timer.
    pub(super) fn poll(&mut self) -> u64 {
        // SAFETY: `Stack` exists only with the mutex held; the arguments are valid until the call returns.
        unsafe { (self.instance.calls.poll)(self.own(), self.now) }
    }

    /// Transmits the frames that preceding calls have queued. Returns the time of the next timer.
    pub(super) fn settle(&mut self) -> u64 {
        // SAFETY: `Stack` exists only with the mutex held; the arguments are valid until the call returns.
        unsafe { (self.instance.calls.settle)(self.own(), self.now) }
    }

    /// Returns true if automatic configuration has completed.
    pub(super) fn is_configured(&mut self) -> bool {
        // SAFETY: `Stack` exists only with the mutex held; the arguments are valid until the call returns.
        unsafe { (self.instance.calls.is_configured)(self.own()) }
    }

    pub(super) fn socket(&mut self, family: u32, kind: u32, waker_key: usize) -> Result<u64, Errno> {
        // SAFETY: `Stack` exists only with the mutex held; the arguments are valid until the call returns.
        result(unsafe { (self.instance.calls.socket)(self.own(), family, kind, waker_key) })
    }

    /// Closes all sockets at shutdown.
    pub(super) fn close_all(&mut self) {
        // SAFETY: `Stack` exists only with the mutex held; the arguments are valid until the call returns.
        unsafe { (self.instance.calls.close_all)(self.own()) }
    }

    /// Returns true if all sent data has been delivered. Called after `close_all`.
    pub(super) fn is_delivered(&mut self) -> bool {
        // SAFETY: `Stack` exists only with the mutex held; the arguments are valid until the call returns.
        unsafe { (self.instance.calls.is_delivered)(self.own()) }
    }

    /// Updates the time, and returns it.
    pub(super) fn tick(&mut self) -> u64 {
        self.now = clock::monotonic();
        self.advance();
        self.now
    }

    /// See [`hermit_interface::net::Calls::finish`].
    pub(super) fn finish(&mut self, socket: u64) -> Result<(), Errno> {
        // SAFETY: `Stack` exists only with the mutex held; the arguments are valid until the call returns.
        success(unsafe { (self.instance.calls.finish)(self.own(), socket) })
    }

    pub(super) fn close(&mut self, socket: u64, at_once: bool) {
        // SAFETY: `Stack` exists only with the mutex held; the arguments are valid until the call returns.
        unsafe { (self.instance.calls.close)(self.own(), socket, at_once) }
    }

    pub(super) fn bind(&mut self, socket: u64, address: &Endpoint) -> Result<(), Errno> {
        // SAFETY: `Stack` exists only with the mutex held; the arguments are valid until the call returns.
        success(unsafe { (self.instance.calls.bind)(self.own(), socket, address) })
    }

    pub(super) fn listen(&mut self, socket: u64, backlog: i32) -> Result<(), Errno> {
        // SAFETY: `Stack` exists only with the mutex held; the arguments are valid until the call returns.
        success(unsafe { (self.instance.calls.listen)(self.own(), socket, backlog) })
    }

    pub(super) fn accept(&mut self, socket: u64, waker_key: usize) -> Result<(u64, Endpoint), Errno> {
        let mut from = Endpoint::default();
        // SAFETY: `Stack` exists only with the mutex held; the arguments are valid until the call returns.
        let accepted =
            result(unsafe { (self.instance.calls.accept)(self.own(), socket, waker_key, &raw mut from) })?;
        Ok((accepted, from))
    }

    pub(super) fn connect(&mut self, socket: u64, address: &Endpoint) -> Result<(), Errno> {
        // SAFETY: `Stack` exists only with the mutex held; the arguments are valid until the call returns.
        success(unsafe { (self.instance.calls.connect)(self.own(), socket, address) })
    }

    pub(super) fn send(&mut self, socket: u64, bytes: &[u8], to: Option<&Endpoint>) -> Result<usize, Errno> {
        let to = to.map_or(ptr::null(), ptr::from_ref);
        // SAFETY: `Stack` exists only with the mutex held; the arguments are valid until the call returns.
        let sent = unsafe { (self.instance.calls.send)(self.own(), socket, bytes.as_ptr(), bytes.len(), to) };
        result(sent).map(to_usize)
    }

    /// Receives into the start of `buffer`. Returns the received bytes. For a datagram, also stores the
    /// sender's address.
    pub(super) fn receive<'buffer>(
        &mut self,
        socket: u64,
        buffer: &'buffer mut [MaybeUninit<u8>],
        flags: u32,
        from: Option<&mut Endpoint>,
    ) -> Result<&'buffer mut [u8], Errno> {
        let from = from.map_or(ptr::null_mut(), ptr::from_mut);
        let (start, room) = (buffer.as_mut_ptr().cast::<u8>(), buffer.len());
        // SAFETY: `Stack` exists only with the mutex held; the stack only writes to the buffer and to `from`,
        // which are borrowed until the call returns.
        let received = unsafe { (self.instance.calls.receive)(self.own(), socket, start, room, flags, from) };
        let received = buffer.get_mut(..to_usize(result(received)?)).unwrap_or_default();
        // SAFETY: the stack has initialised as many bytes from the buffer's start on as it returns
        // (`hermit_interface::net::Calls::receive`).
        Ok(unsafe { received.assume_init_mut() })
    }

    pub(super) fn shutdown(&mut self, socket: u64, how: i32) -> Result<(), Errno> {
        // SAFETY: `Stack` exists only with the mutex held; the arguments are valid until the call returns.
        success(unsafe { (self.instance.calls.shutdown)(self.own(), socket, how) })
    }

    pub(super) fn local(&mut self, socket: u64) -> Result<Endpoint, Errno> {
        let mut address = Endpoint::default();
        // SAFETY: `Stack` exists only with the mutex held; the arguments are valid until the call returns.
        success(unsafe { (self.instance.calls.local)(self.own(), socket, &raw mut address) })?;
        Ok(address)
    }

    pub(super) fn remote(&mut self, socket: u64) -> Result<Endpoint, Errno> {
        let mut address = Endpoint::default();
        // SAFETY: `Stack` exists only with the mutex held; the arguments are valid until the call returns.
        success(unsafe { (self.instance.calls.remote)(self.own(), socket, &raw mut address) })?;
        Ok(address)
    }

    pub(super) fn set_option(&mut self, socket: u64, option: &SocketOption) -> Result<(), Errno> {
        // SAFETY: `Stack` exists only with the mutex held; the arguments are valid until the call returns.
        success(unsafe { (self.instance.calls.set_option)(self.own(), socket, option) })
    }

    pub(super) fn option(&mut self, socket: u64, name: OptionName) -> Result<u32, Errno> {
        let mut option = SocketOption { name: name as u32, ..SocketOption::default() };
        // SAFETY: `Stack` exists only with the mutex held; the arguments are valid until the call returns.
        success(unsafe { (self.instance.calls.option)(self.own(), socket, &raw mut option) })?;
        Ok(option.value)
    }

    /// Returns the readiness of the socket, packed into bits ([`hermit_interface::Readiness::to_bits`]).
    pub(super) fn readiness(&mut self, socket: u64) -> u32 {
        // SAFETY: `Stack` exists only with the mutex held; the arguments are valid until the call returns.
        unsafe { (self.instance.calls.readiness)(self.own(), socket) }
    }

    /// Writes the addresses of a name that the machine itself defines. Returns the number of addresses.
    pub(super) fn known_addresses(
        &mut self,
        name: &[u8],
        addresses: &mut [Endpoint],
    ) -> Result<usize, Errno> {
        let (start, room) = (addresses.as_mut_ptr(), addresses.len());
        // SAFETY: `Stack` exists only with the mutex held; the arguments are valid until the call returns.
        let count = result(unsafe {
            (self.instance.calls.known_addresses)(self.own(), name.as_ptr(), name.len(), start, room)
        })?;
        Ok(room.min(to_usize(count)))
    }

    /// Returns the name servers and search domains that the network has provided.
    pub(super) fn name_config(&mut self) -> NameConfig {
        let mut config = NameConfig::default();
        // SAFETY: `Stack` exists only with the mutex held; the arguments are valid until the call returns.
        unsafe { (self.instance.calls.name_config)(self.own(), &raw mut config) }
        config
    }
}
