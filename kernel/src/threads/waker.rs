//! Implements the `Waker` of a thread: it makes the thread ready.

use hermit_hal::waker::StaticWake;

use super::schedule;
use super::thread::Thread;

impl StaticWake for Thread {
    fn wake(&'static self) {
        schedule::wake(self);
    }
}
