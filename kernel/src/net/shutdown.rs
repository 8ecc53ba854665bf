//! Shutdown of the network: delivers sent data and FINs before the machine ends.
//!
//! On Linux the kernel delivers the data of a process that has ended. Here kernel and process end together.

use hermit_hal::clock;
use hermit_hal::once::Once;

use super::stack::Network;
use super::{NETWORK, poll};
use crate::devices;
use crate::threads::deferred_block;

/// Timeout of the delivery in nanoseconds, for hosts that do not answer.
const DELIVERY_TIMEOUT_NS: u64 = 2_000_000_000;

/// The shutdown hook; its code is not in the image of a program without sockets.
static SHUTDOWN_HOOK: Once<fn(&Network)> = Once::new();

/// Registers the shutdown hook.
pub(super) fn prepare() {
    SHUTDOWN_HOOK.call_once(|| deliver_all);
}

/// Closes all connections, and waits until sent data is delivered or the timeout expires. Sockets cannot be
/// used afterwards.
pub(crate) fn shut_down() {
    if let (Some(hook), Some(network)) = (SHUTDOWN_HOOK.get(), NETWORK.get()) {
        hook(network);
    }
}

fn deliver_all(network: &Network) {
    let deadline = clock::monotonic() + DELIVERY_TIMEOUT_NS;
    let mut stack = network.seize();
    stack.close_all();
    while !stack.is_delivered() && stack.tick() < deadline {
        poll(&mut stack);
        deferred_block::yield_now();
    }
    let Some(device) = devices::network() else { return };
    while !device.has_sent() && clock::monotonic() < deadline {
        deferred_block::yield_now();
    }
}
