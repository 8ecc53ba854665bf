//! Sockets. Sockets of the IP family connect programs with the network stack and the network device.
//!
//! The stack (`hermit-sys/net`) never blocks and has no threads. Each call of a program polls it: the poll
//! receives frames, handles expired timers and transmits. While no calls are made, the poll thread
//! ([`poll_thread`]) polls the stack when the device or a timer wakes it. Threads block only in [`waiting`].
//!
//! | module | |
//! | --- | --- |
//! | [`mod@socket`] | creation of sockets of all families |
//! | [`inet`] | the IP family: TCP and UDP |
//! | [`stack`], [`services`] | the function tables between kernel and stack |
//! | [`waker_keys`] | numbers by which the stack wakes waiters |
//! | [`rx_interrupt`] | the device's interrupt for received frames |
//! | [`poll_leader`] | the thread that polls the stack after the next interrupt |
//! | [`poll_thread`] | the thread that polls the stack when no other thread does |
//! | [`lookup`] | lookups of names |
//! | [`waiting`] | blocks threads until a call of the stack succeeds |
//! | [`mod@shutdown`] | delivery of sent data before the machine ends |

mod configured;
pub(crate) mod inet;
pub(crate) mod lookup;
mod poll_leader;
mod poll_thread;
mod rx_interrupt;
mod services;
mod shutdown;
pub(crate) mod socket;
mod stack;
pub(crate) mod waiting;
mod waker_keys;

use alloc::vec::Vec;
use core::hint::black_box;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use hermit_hal::once::Once;
use hermit_hal::{clock, memory};
use hermit_interface::Errno;
use hermit_interface::net::StackConfig;

use self::services::SERVICES;
use self::stack::{Network, Stack};
use crate::sync::Mutex;
use crate::threads::lifecycle::set_reclaim_network;
use crate::{command_line, devices, entropy};

pub(crate) use shutdown::shut_down;

/// The maximum size of all buffers of connections is the memory that is available at the start of the
/// network, divided by this.
const BUFFER_SHARE: u64 = 4;

/// Upper bound in bytes of the memory that the stack allocates at its start. It is the sum of a fixed part, a
/// part for each byte of the command line (the stack keeps its words twice), and a frame of the device's MTU.
const START_MEMORY: usize = 64 << 10;
const START_MEMORY_PER_BYTE: usize = 32;

static NETWORK: Once<Network> = Once::new();

/// True if the start of the network has completed.
static IS_COMPLETE: AtomicBool = AtomicBool::new(false);

/// Returns the network. The first call starts it.
///
/// # Errors
///
/// `ENOMEM`; `ENOSYS` without a source of random numbers, which TCP requires.
fn network() -> Result<&'static Network, Errno> {
    static STARTING: Mutex = Mutex::new();
    if let Some(network) = NETWORK.get().filter(|_| IS_COMPLETE.load(Acquire)) {
        return Ok(network);
    }
    STARTING.with(|| {
        let network = NETWORK.try_call_once(start)?;
        // If the poll thread cannot be started, the next call tries again, without starting the stack a
        // second time.
        if !IS_COMPLETE.load(Relaxed) {
            poll_thread::start()?;
            shutdown::prepare();
            set_reclaim_network(reclaim);
            IS_COMPLETE.store(true, Release);
        }
        Ok(network)
    })
}

/// Size in bytes of the memory that the network keeps for later use.
pub(crate) fn kept_memory() -> usize {
    NETWORK.get().map_or(0, Network::kept_memory)
}

/// Frees the memory that the network keeps for later use. Does nothing if a thread is using the network.
fn reclaim() {
    if let Some(network) = NETWORK.get() {
        network.reclaim();
    }
}

fn start() -> Result<Network, Errno> {
    entropy::fill(&mut [0; 8])?;
    let line = command_line::text();
    let settings = StackConfig {
        now: clock::monotonic(),
        buffers: hermit_interface::to_usize(memory::available() / BUFFER_SHARE),
        command_line: line.as_ptr(),
        command_line_size: line.len(),
    };
    devices::init_network(poll_leader::device_interrupt)?;
    check_memory(line)?;
    let settings = memory::leak(settings).ok_or(Errno::ENOMEM)?;
    Network::start(&SERVICES, settings).ok_or(Errno::ENOMEM)
}

/// Fails if there is too little memory to start the stack. The allocations of the stack themselves end the
/// machine if they fail. After this check, that can happen only if another thread takes the memory in
/// between.
fn check_memory(line: &[u8]) -> Result<(), Errno> {
    let mtu = devices::network().map_or(0, |device| device.describe().mtu.into());
    let mut block: Vec<u8> = Vec::new();
    let size = START_MEMORY + mtu + line.len() * START_MEMORY_PER_BYTE;
    block.try_reserve_exact(size)?;
    // Without this, the compiler would remove the allocation, since the block is not used.
    black_box(&block);
    Ok(())
}

/// Calls the stack, and then transmits the frames that the call has queued.
fn act<R>(network: &Network, action: impl FnOnce(&mut Stack) -> R) -> R {
    let (result, next) = network.with(|stack| (action(stack), settle(stack)));
    poll_thread::poll_by(next);
    result
}

/// Does [`act`]. If the call fails with `EAGAIN`, polls the stack and tries once more.
fn drive<R>(network: &Network, mut action: impl FnMut(&mut Stack) -> Result<R, Errno>) -> Result<R, Errno> {
    act(network, |stack| match action(stack) {
        Err(Errno::EAGAIN) => {
            poll(stack);
            action(stack)
        }
        result => result,
    })
}

/// Polls the stack. Called when frames were received.
fn poll_received() {
    if let Some(network) = NETWORK.get() {
        let next = network.with(poll);
        poll_thread::poll_by(next);
    }
}

/// Polls the stack and flushes the device. Returns the time of the stack's next timer.
fn poll(stack: &mut Stack) -> u64 {
    poll_leader::begin_poll();
    let next = stack.poll();
    configured::update(stack);
    flush();
    next
}

/// Transmits the frames that preceding calls have queued. Returns the time of the stack's next timer.
fn settle(stack: &mut Stack) -> u64 {
    let next = stack.settle();
    flush();
    next
}

fn flush() {
    if let Some(device) = devices::network() {
        device.flush();
    }
}
