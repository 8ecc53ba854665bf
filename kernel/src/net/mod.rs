//! Sockets: what connects programs, the network stack and the network device.
//!
//! The stack (`hermit-sys/net`) never waits and has no threads. Whoever calls it drives it: takes what has arrived, does what is
//! due, sends what can be sent. When nobody calls, [`poller`] does, woken by the device or by time. All waiting is
//! here: in [`waiting`].
//!
//! | module | |
//! | --- | --- |
//! | [`stack`], [`services`] | the two tables of functions between kernel and stack |
//! | [`cookies`] | by which the stack names whom to wake |
//! | [`rx_interrupt`] | the device's interrupt for received frames |
//! | [`leader`] | the thread that waits for the stack and polls it when the interrupt comes |
//! | [`poller`] | the thread that drives the stack when no other thread does |
//! | [`socket`] | a socket behind a descriptor |
//! | [`lookup`] | addresses of names |
//! | [`waiting`] | what a thread does until the stack has what it wants |
//! | [`mod@wind_up`] | what happens to connections when the machine ends |

mod configured;
mod cookies;
mod leader;
pub(crate) mod lookup;
mod poller;
mod rx_interrupt;
mod services;
pub(crate) mod socket;
mod stack;
mod waiting;
mod wind_up;

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use hermit_hal::{clock, memory};
use hermit_interface::Errno;
use hermit_interface::net::StackConfig;
use spin::Once;

use self::services::SERVICES;
use self::stack::{Network, Stack};
use crate::sync::Mutex;
use crate::threads::lifecycle::set_reclaim_network;
use crate::{command_line, devices, entropy};

pub(crate) use wind_up::wind_up;

/// The part of the memory that is left when the network begins that buffers of connections may take.
const BUFFER_SHARE: u64 = 4;

static NETWORK: Once<Network> = Once::new();

/// All that belongs to it has begun, too.
static IS_COMPLETE: AtomicBool = AtomicBool::new(false);

/// The network, which begins when somebody asks for it first.
///
/// # Errors
///
/// `ENOMEM`; `ENOSYS` without random numbers, which connections cannot do without.
fn network() -> Result<&'static Network, Errno> {
    static STARTING: Mutex = Mutex::new();
    if let Some(network) = NETWORK.get().filter(|_| IS_COMPLETE.load(Acquire)) {
        return Ok(network);
    }
    STARTING.with(|| {
        let network = NETWORK.try_call_once(start)?;
        // If this fails, it is tried again when the network is asked for again: the stack cannot begin twice.
        if !IS_COMPLETE.load(Relaxed) {
            poller::start()?;
            wind_up::prepare();
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

/// Frees the memory that the network keeps for later use, unless a thread uses the network.
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
    devices::init_network(leader::device_interrupt)?;
    let settings = memory::leak(settings).ok_or(Errno::ENOMEM)?;
    Network::start(&SERVICES, settings).ok_or(Errno::ENOMEM)
}

/// Does something with the stack, which then sends what comes of it.
fn act<R>(network: &Network, action: impl FnOnce(&mut Stack) -> R) -> R {
    let (result, next) = network.with(|stack| (action(stack), settle(stack)));
    poller::poll_by(next);
    result
}

/// The same. If it would have to wait for what has arrived by now, it is tried again.
fn drive<R>(network: &Network, mut action: impl FnMut(&mut Stack) -> Result<R, Errno>) -> Result<R, Errno> {
    act(network, |stack| match action(stack) {
        Err(Errno::EAGAIN) => {
            poll(stack);
            action(stack)
        }
        result => result,
    })
}

/// Has the stack do what there is to do, and tells the device; when the stack wants to be called again.
fn poll(stack: &mut Stack) -> u64 {
    let next = stack.poll();
    configured::look(stack);
    flush();
    next
}

/// Has the stack send what calls gave rise to; when it wants to be called again.
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
