//! Time slices: no thread stays ready on a busy CPU whose slice has ended.

extern crate std;

use loom::sync::Mutex;
use loom::thread::spawn;

use super::{ModelThread, explore, leak};
use crate::cpu::Cpu;
use crate::cpus::{Cpus, Reschedule};
use crate::policy::RoundRobin;

type Policy = RoundRobin<ModelThread>;

/// The slice of CPU 0 is over, and its thread was the only one until now: the CPU sees the thread that another CPU
/// makes ready, or it is rescheduled.
#[test]
fn thread_is_made_ready_while_a_slice_ends() {
    explore(3, || {
        let system: &Cpus<ModelThread, Policy, Mutex<Policy>> = leak(Cpus::default());
        let cpus =
            [0, 1].map(|number| leak(Cpu::new(number, ModelThread::new(usize::MAX), Mutex::default())));
        cpus.iter().for_each(|cpu| system.add_cpu(cpu));
        cpus[0].set_slice(true);
        let thread = ModelThread::new(0);
        thread.entity.assign_cpu(0, true);
        let waker = spawn(move || system.make_ready(thread));
        let has_ended = cpus[0].try_end_slice();
        let is_rescheduled = waker.join().unwrap() == Reschedule::Cpu(0);
        assert_eq!(has_ended, is_rescheduled);
    });
}
