//! Waiting for the machine to have an address.
//!
//! Sockets that must not wait do so, too: on Linux a machine has its address before programs begin, so they take "network is
//! unreachable" for an answer that will not change. std's `connect_timeout` is one of them.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU64};
use core::task::Poll;

use hermit_hal::clock;
use hermit_interface::net::{Endpoint, V4};
use hermit_io::WaitQueue as _;

use super::stack::{Network, Stack};
use crate::sync::WaitQueue;
use crate::threads::wait::block_until;

/// How long is waited for an address, in nanoseconds: by everybody in all, since without a server there will be none.
const PATIENCE: u64 = 10_000_000_000;

static WAITERS: WaitQueue = WaitQueue::new();

/// The machine has no address yet, and asks for one.
static IS_CONFIGURING: AtomicBool = AtomicBool::new(true);

/// Looks whether that has changed.
pub(super) fn look(stack: &mut Stack) {
    if is_awaited() && stack.is_configured() {
        IS_CONFIGURING.store(false, Relaxed);
        WAITERS.wake();
    }
}

/// Whether the machine still asks for its address.
pub(super) fn is_awaited() -> bool {
    IS_CONFIGURING.load(Relaxed)
}

/// Waits until the machine can reach others, unless it is itself that is to be reached. It may still not be able to.
pub(super) fn wait(network: &Network, peer: &Endpoint) {
    if !is_loopback(peer) {
        wait_for_others(network);
    }
}

/// The same for whoever does not know yet whom to reach.
pub(super) fn wait_for_others(network: &Network) {
    if !is_awaited() {
        return;
    }
    // 0 until the first caller has set it.
    static DEADLINE: AtomicU64 = AtomicU64::new(0);
    let deadline = clock::monotonic() + PATIENCE;
    let deadline = DEADLINE.compare_exchange(0, deadline, Relaxed, Relaxed).err().unwrap_or(deadline);
    block_until(Some(deadline), |context| {
        WAITERS.add(context);
        network.with(look);
        if is_awaited() { Poll::Pending } else { Poll::Ready(()) }
    });
}

fn is_loopback(peer: &Endpoint) -> bool {
    let address = core::net::Ipv6Addr::from(peer.address);
    match address.to_ipv4_mapped() {
        _ if peer.family == V4 => peer.address[0] == 127,
        Some(mapped) => mapped.is_loopback(),
        None => address.is_loopback() || address.is_unspecified(),
    }
}
