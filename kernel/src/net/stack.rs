//! The network stack's functions, made safe.
#![expect(unsafe_code, reason = "the stack is another object, known to the linker alone")]

use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::ptr;

use hermit_hal::clock;
use hermit_interface::net::{
    CallResult, Endpoint, OptionName, Services, SocketOption, StackConfig, StackInstance, result,
};
use hermit_interface::{Errno, to_usize};

use crate::sync::Mutex;

unsafe extern "C" {
    /// A [`hermit_interface::net::Start`].
    fn hermit_net_start(services: *const Services, settings: *const StackConfig) -> *const StackInstance;
}

/// The stack, which one thread after the other uses.
#[derive(Debug)]
pub(super) struct Network {
    turn: Mutex,
    begun: &'static StackInstance,
}

// SAFETY: the stack is only used by who has the turn.
unsafe impl Send for Network {}
// SAFETY: as above.
unsafe impl Sync for Network {}

impl Network {
    /// Has the stack begin; `None` without memory.
    pub(super) fn start(services: &'static Services, settings: &'static StackConfig) -> Option<Self> {
        // SAFETY: both live for ever.
        let begun = unsafe { hermit_net_start(services, settings) };
        // SAFETY: null, or what lives for ever and does not change.
        let begun = unsafe { begun.as_ref() }?;
        Some(Self { turn: Mutex::new(), begun })
    }

    /// Uses the stack when nobody else does.
    #[inline]
    pub(super) fn with<R>(&self, action: impl FnOnce(&mut Stack) -> R) -> R {
        self.turn.with(|| {
            let mut stack = Stack { begun: self.begun, now: clock::monotonic() };
            stack.advance();
            action(&mut stack)
        })
    }
}

impl Network {
    /// Size in bytes of the buffers that are kept for later connections.
    pub(super) fn kept_memory(&self) -> usize {
        self.turn.with(|| {
            // SAFETY: this thread has the turn, so nobody else is in the stack, whose own pointer this is.
            unsafe { (self.begun.calls.kept_memory)(self.begun.stack) }
        })
    }

    /// Frees the buffers that are kept for later connections, unless a thread uses the stack, which may be this one.
    pub(super) fn reclaim(&self) {
        let _: Option<()> = self.turn.try_with(|| {
            // SAFETY: this thread has the turn, so nobody else is in the stack, whose own pointer this is.
            unsafe { (self.begun.calls.reclaim)(self.begun.stack) }
        });
    }

    /// The stack, for somebody who never gives it back.
    pub(super) fn seize(&self) -> Stack {
        self.turn.lock_forever();
        Stack { begun: self.begun, now: clock::monotonic() }
    }
}

/// The stack in the hands of who has the turn.
#[derive(Debug)]
pub(super) struct Stack {
    begun: &'static StackInstance,
    /// When the turn began.
    now: u64,
}

/// Nothing but success or failure.
fn success(number: CallResult) -> Result<(), Errno> {
    result(number).map(drop)
}

// SAFETY of all calls below: only `Network` makes a `Stack`, for who has the turn, so nobody else is in the stack; the
// pointer is the stack's own, and all others are to values that live during the call, which is as long as the stack uses them.
impl Stack {
    fn own(&self) -> *mut c_void {
        self.begun.stack
    }

    /// Tells the time.
    fn advance(&mut self) {
        // SAFETY: see above.
        unsafe { (self.begun.calls.advance)(self.own(), self.now) }
    }

    /// Lets the stack do what there is to do; when it wants to be called again.
    pub(super) fn poll(&mut self) -> u64 {
        // SAFETY: see above.
        unsafe { (self.begun.calls.poll)(self.own(), self.now) }
    }

    /// Lets the stack send what calls gave rise to, if they did; when it wants to be called again.
    pub(super) fn settle(&mut self) -> u64 {
        // SAFETY: see above.
        unsafe { (self.begun.calls.settle)(self.own(), self.now) }
    }

    /// Whether the machine has the address that it asks others for, if it asks for one.
    pub(super) fn is_configured(&mut self) -> bool {
        // SAFETY: see above.
        unsafe { (self.begun.calls.is_configured)(self.own()) }
    }

    pub(super) fn socket(&mut self, family: u32, kind: u32, cookie: usize) -> Result<u64, Errno> {
        // SAFETY: see above.
        result(unsafe { (self.begun.calls.socket)(self.own(), family, kind, cookie) })
    }

    /// Closes all sockets.
    pub(super) fn wind_up(&mut self) {
        // SAFETY: see above.
        unsafe { (self.begun.calls.close_all)(self.own()) }
    }

    /// Whether everything has been delivered after that.
    pub(super) fn is_delivered(&mut self) -> bool {
        // SAFETY: see above.
        unsafe { (self.begun.calls.is_delivered)(self.own()) }
    }

    /// The time goes on; what it is now.
    pub(super) fn tick(&mut self) -> u64 {
        self.now = clock::monotonic();
        self.advance();
        self.now
    }

    /// See [`hermit_interface::net::Calls::finish`].
    pub(super) fn finish(&mut self, socket: u64) -> Result<(), Errno> {
        // SAFETY: see above.
        success(unsafe { (self.begun.calls.finish)(self.own(), socket) })
    }

    pub(super) fn close(&mut self, socket: u64, at_once: bool) {
        // SAFETY: see above.
        unsafe { (self.begun.calls.close)(self.own(), socket, at_once) }
    }

    pub(super) fn bind(&mut self, socket: u64, address: &Endpoint) -> Result<(), Errno> {
        // SAFETY: see above.
        success(unsafe { (self.begun.calls.bind)(self.own(), socket, address) })
    }

    pub(super) fn listen(&mut self, socket: u64, backlog: i32) -> Result<(), Errno> {
        // SAFETY: see above.
        success(unsafe { (self.begun.calls.listen)(self.own(), socket, backlog) })
    }

    pub(super) fn accept(&mut self, socket: u64, cookie: usize) -> Result<(u64, Endpoint), Errno> {
        let mut from = Endpoint::default();
        // SAFETY: see above.
        let accepted =
            result(unsafe { (self.begun.calls.accept)(self.own(), socket, cookie, &raw mut from) })?;
        Ok((accepted, from))
    }

    pub(super) fn connect(&mut self, socket: u64, address: &Endpoint) -> Result<(), Errno> {
        // SAFETY: see above.
        success(unsafe { (self.begun.calls.connect)(self.own(), socket, address) })
    }

    pub(super) fn send(&mut self, socket: u64, bytes: &[u8], to: Option<&Endpoint>) -> Result<usize, Errno> {
        let to = to.map_or(ptr::null(), ptr::from_ref);
        // SAFETY: see above.
        let sent = unsafe { (self.begun.calls.send)(self.own(), socket, bytes.as_ptr(), bytes.len(), to) };
        result(sent).map(to_usize)
    }

    /// Receives into the start of `buffer`; the bytes that are there then, and from where a datagram came.
    pub(super) fn receive<'buffer>(
        &mut self,
        socket: u64,
        buffer: &'buffer mut [MaybeUninit<u8>],
        flags: u32,
    ) -> Result<(&'buffer mut [u8], Endpoint), Errno> {
        let mut from = Endpoint::default();
        let (start, room) = (buffer.as_mut_ptr().cast::<u8>(), buffer.len());
        // SAFETY: see above; the stack only writes to the buffer.
        let received =
            unsafe { (self.begun.calls.receive)(self.own(), socket, start, room, flags, &raw mut from) };
        let received = buffer.get_mut(..to_usize(result(received)?)).unwrap_or_default();
        // SAFETY: the stack has initialised as many bytes from the buffer's start on as it returns
        // (`hermit_interface::net::Calls::receive`).
        Ok((unsafe { received.assume_init_mut() }, from))
    }

    pub(super) fn shutdown(&mut self, socket: u64, how: i32) -> Result<(), Errno> {
        // SAFETY: see above.
        success(unsafe { (self.begun.calls.shutdown)(self.own(), socket, how) })
    }

    pub(super) fn local(&mut self, socket: u64) -> Result<Endpoint, Errno> {
        let mut address = Endpoint::default();
        // SAFETY: see above.
        success(unsafe { (self.begun.calls.local)(self.own(), socket, &raw mut address) })?;
        Ok(address)
    }

    pub(super) fn remote(&mut self, socket: u64) -> Result<Endpoint, Errno> {
        let mut address = Endpoint::default();
        // SAFETY: see above.
        success(unsafe { (self.begun.calls.remote)(self.own(), socket, &raw mut address) })?;
        Ok(address)
    }

    pub(super) fn set_option(&mut self, socket: u64, option: &SocketOption) -> Result<(), Errno> {
        // SAFETY: see above.
        success(unsafe { (self.begun.calls.set_option)(self.own(), socket, option) })
    }

    pub(super) fn option(&mut self, socket: u64, name: OptionName) -> Result<u32, Errno> {
        let mut option = SocketOption { name: name as u32, ..SocketOption::default() };
        // SAFETY: see above.
        success(unsafe { (self.begun.calls.option)(self.own(), socket, &raw mut option) })?;
        Ok(option.value)
    }

    /// What the socket is ready for, packed ([`hermit_interface::Readiness::to_bits`]).
    pub(super) fn readiness(&mut self, socket: u64) -> u32 {
        // SAFETY: see above.
        unsafe { (self.begun.calls.readiness)(self.own(), socket) }
    }

    pub(super) fn resolve(&mut self, name: &[u8], family: u32, cookie: usize) -> Result<u64, Errno> {
        // SAFETY: see above.
        result(unsafe { (self.begun.calls.resolve)(self.own(), name.as_ptr(), name.len(), family, cookie) })
    }

    /// Writes the addresses that were asked for; how many.
    pub(super) fn resolved(&mut self, question: u64, addresses: &mut [Endpoint]) -> Result<usize, Errno> {
        let (start, room) = (addresses.as_mut_ptr(), addresses.len());
        // SAFETY: see above.
        let count = result(unsafe { (self.begun.calls.resolved)(self.own(), question, start, room) })?;
        Ok(room.min(to_usize(count)))
    }
}
