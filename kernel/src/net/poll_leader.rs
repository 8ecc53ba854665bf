//! The poll leader of the network ([`PollLeader`]): a thread blocked in a call of the stack, which the
//! network device's next interrupt wakes. The leader polls the stack itself, which saves two context
//! switches: to the poll thread and back. If the interrupted CPU is running another thread, the interrupt
//! wakes the poll thread instead, because the poll thread has a higher priority.

use core::task::Context;

use hermit_hal::sync::RawSpinLock;
use hermit_io::PollLeader;
use hermit_sched::thread::Thread as _;

use super::{poll_thread, rx_interrupt};
use crate::devices;
use crate::threads::{cpu, schedule};

static LEADER: PollLeader<RawSpinLock> = PollLeader::new();

/// Handles an interrupt of the device: frames were received, or its TX queue has room or is empty.
pub(crate) fn device_interrupt() {
    rx_interrupt::note_raised();
    match LEADER.interrupt().filter(|_| cpu::is_idle()) {
        Some(leader) => leader.wake(),
        None => poll_thread::call(),
    }
}

/// Notes that a poll of the stack begins. The stack is locked.
#[inline]
pub(super) fn begin_poll() {
    LEADER.begin_poll();
}

/// Notes that the stack holds back data until the device's TX queue is empty. The stack is locked.
#[inline]
pub(super) fn hold() {
    LEADER.hold();
}

/// True if a thread that is about to wait must poll the stack first.
#[inline]
pub(super) fn must_poll() -> bool {
    LEADER.must_poll()
}

/// Makes the calling thread the poll leader. Returns true if it must poll before it waits.
pub(super) fn lead(context: &Context<'_>) -> bool {
    if devices::network().is_none() {
        return false;
    }
    let must_poll = if may_lead() { LEADER.lead(context.waker()) } else { LEADER.must_poll() };
    must_poll || rx_interrupt::enable()
}

/// Returns true if the calling thread can run as soon as an interrupt finds an idle CPU. A thread that is
/// pinned to another CPU cannot: it may have to wait there for a thread that computes.
fn may_lead() -> bool {
    !schedule::current().entity().is_pinned() || cpu::count() == 1
}

/// Ends the calling thread's role as the poll leader, because it does not wait any more. After that, the poll
/// thread handles received frames.
pub(super) fn resign() {
    if devices::network().is_none() {
        return;
    }
    let must_poll = LEADER.resign(schedule::current().waker());
    if rx_interrupt::enable() || must_poll {
        poll_thread::call();
    }
}
