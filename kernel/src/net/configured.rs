//! Waits for the automatic configuration of the machine's address.
//!
//! Non-blocking sockets wait, too. On Linux, a machine has its address before programs start, so programs
//! treat the error "network is unreachable" as permanent. std's `connect_timeout` uses non-blocking sockets.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU64};
use core::task::Poll;

use hermit_hal::clock;
use hermit_interface::net::{Endpoint, V4};

use super::stack::{Network, Stack};
use crate::sync::WaitQueue;
use crate::threads::wait::block_until;

/// Timeout in nanoseconds of the wait for an address. It begins with the first waiter. Without a DHCP server,
/// the machine never gets an address.
const CONFIGURE_TIMEOUT_NS: u64 = 10_000_000_000;

static WAITERS: WaitQueue = WaitQueue::new();

/// True if the machine has no address yet, and DHCP runs.
static IS_CONFIGURING: AtomicBool = AtomicBool::new(true);

/// Updates the state from the stack. Wakes the waiters when the address is configured.
pub(super) fn update(stack: &mut Stack) {
    if is_awaited() && stack.is_configured() {
        IS_CONFIGURING.store(false, Relaxed);
        WAITERS.wake();
    }
}

/// Returns true if the address is not configured yet.
pub(super) fn is_awaited() -> bool {
    IS_CONFIGURING.load(Relaxed)
}

/// Waits until the address is configured or the timeout has expired. Does not wait if the peer is a loopback
/// address.
pub(super) fn wait(network: &Network, peer: &Endpoint) {
    if !is_loopback(peer) {
        wait_for_others(network);
    }
}

/// Waits until the address is configured, or the timeout has expired.
pub(super) fn wait_for_others(network: &Network) {
    if !is_awaited() {
        return;
    }
    // The deadline. It is 0 until the first caller has set it.
    static DEADLINE: AtomicU64 = AtomicU64::new(0);
    let deadline = clock::monotonic() + CONFIGURE_TIMEOUT_NS;
    let deadline = DEADLINE.compare_exchange(0, deadline, Relaxed, Relaxed).err().unwrap_or(deadline);
    block_until(Some(deadline), |context| {
        WAITERS.add(context);
        network.with(update);
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
