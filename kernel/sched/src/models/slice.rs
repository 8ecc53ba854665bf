//! Time slices: no thread stays ready on a busy CPU whose slice has ended.

extern crate std;

use hermit_base::lock::Lock as _;
use loom::sync::Mutex;
use loom::thread::spawn;

use super::{ModelThread, explore, leak};
use crate::cpu::Cpu;
use crate::cpus::{Cpus, Reschedule};
use crate::policy::{Fair, Policy as _};
use crate::thread::NORMAL_PRIORITY;

type Policy = Fair<ModelThread>;

/// The slice of CPU 0 is over, and its thread was the only one until now, while another CPU makes a thread
/// ready. Either CPU 0 sees that thread, or CPU 0 is rescheduled.
#[test]
fn thread_is_made_ready_while_a_slice_ends() {
    explore(3, || {
        let system: &Cpus<ModelThread, Policy, Mutex<Policy>> = leak(Cpus::default());
        let cpus =
            [0, 1].map(|number| leak(Cpu::new(number, ModelThread::new(usize::MAX), Mutex::default())));
        cpus.iter().for_each(|cpu| system.add_cpu(cpu));
        cpus[0].start_slice();
        let thread = ModelThread::new(0);
        thread.entity.assign_cpu(0, true);
        let waker = spawn(move || system.make_ready(thread, || 0));
        let has_ended = cpus[0].try_end_slice(false, || 0);
        let is_rescheduled = waker.join().unwrap() == Reschedule::Cpu(0);
        assert_eq!(has_ended, is_rescheduled);
    });
}

/// CPU 0, whose thread computes, begins to account for run time at the end of its slice, while another CPU
/// makes threads ready: each of them is in the run queue and counted exactly once.
#[test]
fn threads_are_made_ready_while_accounting_begins() {
    explore(3, || {
        let system: &Cpus<ModelThread, Policy, Mutex<Policy>> = leak(Cpus::default());
        let new = |number| {
            let thread = ModelThread::new(number);
            thread.entity.set_priority(NORMAL_PRIORITY);
            thread.entity.assign_cpu(0, true);
            thread
        };
        let cpu: &'static Cpu<_, _, _> = leak(Cpu::new(0, new(0), Mutex::default()));
        system.add_cpu(cpu);
        system.add_cpu(leak(Cpu::new(1, ModelThread::new(usize::MAX), Mutex::default())));
        let woken = [1, 2].map(new);
        let waker = spawn(move || woken.map(|thread| system.make_ready(thread, || 1)));
        let long = Policy::LONG_RUN.unwrap();
        for now in [0, long] {
            cpu.preempt(true, || now);
        }
        assert!(cpu.run_queue.with(|policy| policy.is_accounting()));
        waker.join().unwrap();
        let mut numbers = [cpu.current().number; 3];
        let mut count = 1;
        while let Some(next) = cpu.pick_next(|| long) {
            numbers[count] = next.number;
            count += 1;
        }
        numbers.sort_unstable();
        assert_eq!((numbers, cpu.ready_count()), ([0, 1, 2], 0));
        assert_eq!(cpu.run_queue.with(|policy| policy.iter().count()), 0);
    });
}
