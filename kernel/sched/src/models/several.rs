//! Polls of several objects. If the poll of one object sleeps, no wake-up by the other objects is lost.

extern crate std;

use core::sync::atomic::Ordering::Relaxed;
use core::task::Poll;

use hermit_base::sync::atomic::AtomicU32;
use loom::thread::spawn;

use super::mutex::Mutex;
use super::{ModelThread, explore, leak};

/// A thread waits for a flag, and for an object whose poll takes a mutex. A second thread holds the mutex
/// meanwhile, and a third thread sets the flag.
#[test]
fn wake_up_before_a_sleep_in_a_poll_is_not_lost() {
    explore(2, || {
        let (mutex, flag) = (leak(Mutex::new()), leak(AtomicU32::new(0)));
        let sleeper = ModelThread::new(0);
        let holder = spawn(move || mutex.increment(ModelThread::new(1)));
        let setter = spawn(move || {
            flag.store(1, Relaxed);
            sleeper.wake();
        });
        let poll = || {
            let is_set = flag.load(Relaxed) == 1;
            mutex.increment(sleeper);
            if is_set { Poll::Ready(()) } else { Poll::Pending }
        };
        while sleeper.entity.poll_several(poll).is_pending() {
            sleeper.park();
        }
        holder.join().unwrap();
        setter.join().unwrap();
    });
}
