//! Who looks after what the device has received: a thread that waits for something itself, or else the poller.
//!
//! The device interrupts once; then somebody looks at all that is there, and lets it interrupt again before he sleeps or
//! goes on. A thread that does so for itself saves the way by the poller, which is two switches between threads. If
//! another thread runs, the poller is quicker, for it goes first.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Acquire, Release};
use core::task::{Context, Waker};

use hermit_hal::sync::SpinLock;

use super::poller;
use crate::devices;
use crate::threads::{cpu, schedule};

/// The thread that is woken by the next interrupt.
static LEADER: SpinLock<Option<Waker>> = SpinLock::new(None);

/// The device interrupts when it receives something.
static IS_ARMED: AtomicBool = AtomicBool::new(false);

/// The device has something.
pub(crate) fn device_interrupt() {
    IS_ARMED.store(false, Release);
    // The lock orders this with `lead`: either the thread is found, or it finds that it has to arm the device.
    let leader = LEADER.lock().take();
    match leader.filter(|_| cpu::is_idle()) {
        Some(leader) => leader.wake(),
        None => poller::call(),
    }
}

/// Has the device interrupt when it receives something; whether it has already, so that no interrupt may come.
pub(super) fn arm() -> bool {
    let Some(device) = devices::network() else { return false };
    if IS_ARMED.swap(true, Acquire) {
        return false;
    }
    let has_more = device.receive_interrupts(true);
    if has_more {
        IS_ARMED.store(false, Release);
    }
    has_more
}

/// Has the device interrupt no more, for a while.
pub(super) fn disarm() {
    if let Some(device) = devices::network() {
        device.receive_interrupts(false);
        IS_ARMED.store(false, Release);
    }
}

/// Has a thread woken when something is received; whether that has happened already.
pub(super) fn lead(context: &Context<'_>) -> bool {
    if devices::network().is_none() {
        return false;
    }
    let mut leader = LEADER.lock();
    if !leader.as_ref().is_some_and(|leader| leader.will_wake(context.waker())) {
        *leader = Some(context.waker().clone());
    }
    drop(leader);
    arm()
}

/// The thread goes on, and leaves what is received from now on to others.
pub(super) fn resign() {
    let waker = schedule::current().waker();
    let mut leader = LEADER.lock();
    if leader.as_ref().is_some_and(|leader| leader.will_wake(waker)) {
        *leader = None;
    }
    drop(leader);
    if arm() {
        poller::call();
    }
}
