//! The end of the network: other hosts get what was sent to them, and learn that there will be no more.
//!
//! A process of Linux may end before what it wrote has arrived, for the kernel lives on. This one does not.

use hermit_hal::clock;
use spin::Once;

use super::stack::Network;
use super::{NETWORK, poll};
use crate::devices;
use crate::threads::deferred_block;

/// How long hosts that do not answer are waited for, in nanoseconds.
const PATIENCE: u64 = 2_000_000_000;

/// What is to be done at the end; a program without sockets has nothing of it in its image.
static FAREWELL: Once<fn(&Network)> = Once::new();

/// Has the end wait for the network.
pub(super) fn prepare() {
    FAREWELL.call_once(|| say_farewell);
}

/// Closes all connections, and waits until everything has been delivered, but not for ever. Nobody gets at a socket any more.
pub(crate) fn wind_up() {
    if let (Some(farewell), Some(network)) = (FAREWELL.get(), NETWORK.get()) {
        farewell(network);
    }
}

fn say_farewell(network: &Network) {
    let deadline = clock::monotonic() + PATIENCE;
    let mut stack = network.seize();
    stack.wind_up();
    while !stack.is_delivered() && stack.tick() < deadline {
        poll(&mut stack);
        deferred_block::yield_now();
    }
    let Some(device) = devices::network() else { return };
    while !device.has_sent() && clock::monotonic() < deadline {
        deferred_block::yield_now();
    }
}
