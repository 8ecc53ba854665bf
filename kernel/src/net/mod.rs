//! Sockets: what connects programs, the network stack and the network device.
//!
//! The stack (`hermit-sys/net`) never waits and has no threads. Whoever calls it drives it: takes what has arrived, does what is
//! due, sends what can be sent. When nobody calls, [`poller`] does, woken by the device or by time. All waiting is
//! here: in [`socket`] and [`lookup`].
//!
//! | module | |
//! | --- | --- |
//! | [`stack`], [`services`] | the two tables of functions between kernel and stack |
//! | [`cookies`] | by which the stack names whom to wake |
//! | [`poller`] | the thread that drives the stack when nobody else does |
//! | [`socket`] | a socket behind a descriptor |
//! | [`lookup`] | addresses of names |

mod configured;
mod cookies;
pub(crate) mod lookup;
mod poller;
mod services;
pub(crate) mod socket;
mod stack;

use alloc::boxed::Box;

use hermit_hal::{clock, memory};
use hermit_interface::Errno;
use hermit_interface::net::Settings;
use spin::Once;

use self::services::SERVICES;
use self::stack::{Network, Stack};
use crate::turn::Turn;
use crate::{devices, entropy, init};

pub(crate) use poller::device_interrupt;

/// The part of the memory that is left when the network begins that buffers of connections may take.
const BUFFER_SHARE: u64 = 4;

static NETWORK: Once<Network> = Once::new();

/// The network, which begins when somebody asks for it first.
///
/// # Errors
///
/// `ENOMEM`; `ENOSYS` without random numbers, which connections cannot do without.
fn network() -> Result<&'static Network, Errno> {
    static STARTING: Turn = Turn::new();
    if let Some(network) = NETWORK.get() {
        return Ok(network);
    }
    STARTING.take(|| {
        if let Some(network) = NETWORK.get() {
            return Ok(network);
        }
        entropy::fill(&mut [0; 8])?;
        let started = start()?;
        let network = NETWORK.call_once(|| started);
        poller::start()?;
        Ok(network)
    })
}

fn start() -> Result<Network, Errno> {
    let line = init::command_line();
    let settings = Box::new(Settings {
        now: clock::monotonic(),
        buffers: hermit_interface::to_usize(memory::available() / BUFFER_SHARE),
        command_line: line.as_ptr(),
        command_line_size: line.len(),
    });
    devices::init_network();
    Network::start(&SERVICES, Box::leak(settings)).ok_or(Errno::ENOMEM)
}

/// Drives the stack and does something with it, in one turn. If that would have had to wait for what has arrived by now, it is tried
/// again.
fn drive<R>(network: &Network, mut action: impl FnMut(&mut Stack) -> Result<R, Errno>) -> Result<R, Errno> {
    let (result, next) = network.with(|stack| {
        let mut result = action(stack);
        let next = poll(stack);
        if matches!(result, Err(Errno::EAGAIN)) {
            result = action(stack);
        }
        (result, next)
    });
    poller::be_there(next);
    result
}

/// Has the stack do what there is to do, and tells the device; when the stack wants to be called again.
fn poll(stack: &mut Stack) -> u64 {
    let next = stack.poll();
    configured::look(stack);
    if let Some(device) = devices::network() {
        device.flush();
    }
    next
}
