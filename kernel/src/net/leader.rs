//! The rx leader: the thread that the network device's next interrupt wakes, because it waits for something from the
//! stack. It polls the stack itself, which saves the two switches to the poll thread and back. If the interrupted CPU runs
//! another thread, the interrupt wakes the poll thread instead, which has a higher priority.

use core::task::{Context, Waker};

use hermit_hal::sync::SpinLock;

use super::{poller, rx_interrupt};
use crate::devices;
use crate::threads::{cpu, schedule};

/// The thread that the next interrupt wakes.
static LEADER: SpinLock<Option<Waker>> = SpinLock::new(None);

/// Handles the interrupt of the device, which has received something.
pub(crate) fn device_interrupt() {
    rx_interrupt::note_raised();
    // The lock orders this with `lead`: either the leader is found here, or it enables the interrupt again.
    let leader = LEADER.lock().take();
    match leader.filter(|_| cpu::is_idle()) {
        Some(leader) => leader.wake(),
        None => poller::call(),
    }
}

/// Makes the calling thread the leader. Returns whether something has been received already.
pub(super) fn lead(context: &Context<'_>) -> bool {
    if devices::network().is_none() {
        return false;
    }
    let mut leader = LEADER.lock();
    if !leader.as_ref().is_some_and(|leader| leader.will_wake(context.waker())) {
        *leader = Some(context.waker().clone());
    }
    drop(leader);
    rx_interrupt::enable()
}

/// Ends what [`lead`] began: the calling thread has stopped waiting, and the poll thread takes what is received.
pub(super) fn resign() {
    if devices::network().is_none() {
        return;
    }
    let waker = schedule::current().waker();
    let mut leader = LEADER.lock();
    if leader.as_ref().is_some_and(|leader| leader.will_wake(waker)) {
        *leader = None;
    }
    drop(leader);
    if rx_interrupt::enable() {
        poller::call();
    }
}
