//! The rx leader: a thread blocked in a call of the stack, which the network device's next interrupt wakes. It polls
//! the stack itself, which saves two context switches, to the poll thread and back. If the interrupted CPU runs another
//! thread, the interrupt wakes the poll thread instead, which has a higher priority.

use core::task::{Context, Waker};

use hermit_hal::sync::SpinLock;

use super::{poll_thread, rx_interrupt};
use crate::devices;
use crate::threads::{cpu, schedule};

/// Waker of the rx leader.
static RX_LEADER: SpinLock<Option<Waker>> = SpinLock::new(None);

/// Handles the RX interrupt of the device.
pub(crate) fn device_interrupt() {
    rx_interrupt::note_raised();
    // The lock orders this with `lead`: either this finds the leader, or the leader enables the interrupt again.
    let leader = RX_LEADER.lock().take();
    match leader.filter(|_| cpu::is_idle()) {
        Some(leader) => leader.wake(),
        None => poll_thread::call(),
    }
}

/// Makes the calling thread the rx leader. Returns whether frames have been received already.
pub(super) fn lead(context: &Context<'_>) -> bool {
    if devices::network().is_none() {
        return false;
    }
    let mut leader = RX_LEADER.lock();
    if !leader.as_ref().is_some_and(|leader| leader.will_wake(context.waker())) {
        *leader = Some(context.waker().clone());
    }
    drop(leader);
    rx_interrupt::enable()
}

/// Ends the calling thread's role as rx leader: it does not wait any more, and the poll thread handles received frames.
pub(super) fn resign() {
    if devices::network().is_none() {
        return;
    }
    let waker = schedule::current().waker();
    let mut leader = RX_LEADER.lock();
    if leader.as_ref().is_some_and(|leader| leader.will_wake(waker)) {
        *leader = None;
    }
    drop(leader);
    if rx_interrupt::enable() {
        poll_thread::call();
    }
}
