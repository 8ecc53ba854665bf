//! CPUs that pick threads, idle when there is none, and pick again when they are rescheduled.

extern crate std;

use std::vec::Vec;

use loom::sync::Mutex;

use super::{ModelThread, WakeEvent, leak};
use crate::cpu::Cpu;
use crate::cpus::{Cpus, Reschedule};
use crate::policy::Fifo;

pub(super) type Policy = Fifo<ModelThread>;
type ReadyQueue = Mutex<Policy>;

struct ModelCpu {
    cpu: &'static Cpu<ModelThread, Policy, ReadyQueue>,
    idle: &'static ModelThread,
    event: WakeEvent,
}

/// The scheduler, with an event per CPU that stands for its reschedule IPI.
pub(super) struct ModelScheduler {
    pub(super) cpus: Cpus<ModelThread, Policy, ReadyQueue>,
    all: Vec<ModelCpu>,
}

pub(super) fn no_time() -> u64 {
    0
}

impl ModelScheduler {
    /// Creates `count` CPUs. Each of them runs a thread of its own.
    pub(super) fn new(count: u32) -> &'static Self {
        let cpus = Cpus::default();
        let all = (0..count).map(|number| {
            let cpu = leak(Cpu::new(number, ModelThread::new(usize::MAX), Mutex::default()));
            cpus.add_cpu(cpu);
            ModelCpu { cpu, idle: ModelThread::new(usize::MAX), event: WakeEvent::default() }
        });
        let all = all.collect();
        leak(Self { cpus, all })
    }

    pub(super) fn cpu(&self, number: usize) -> &'static Cpu<ModelThread, Policy, ReadyQueue> {
        self.all[number].cpu
    }

    /// A new thread that is assigned to a CPU.
    pub(super) fn thread(number: usize, cpu: u32, pinned: bool) -> &'static ModelThread {
        let thread = ModelThread::new(number);
        thread.entity.assign_cpu(cpu, pinned);
        thread
    }

    /// Sends the reschedule IPI.
    pub(super) fn reschedule(&self, target: Reschedule) {
        if let Reschedule::Cpu(number) = target {
            self.all[number as usize].event.signal();
        }
    }

    pub(super) fn make_ready(&self, thread: &'static ModelThread) {
        self.reschedule(self.cpus.make_ready(thread, no_time));
    }

    pub(super) fn wake(&self, thread: &'static ModelThread) {
        self.reschedule(self.cpus.wake(thread, no_time));
    }

    /// A CPU switches from one thread to another, or stays with the same.
    pub(super) fn switch(previous: &'static ModelThread, next: &'static ModelThread) {
        if !core::ptr::eq(previous, next) {
            next.enter();
            previous.leave();
        }
    }

    /// Schedules a CPU whose thread `previous` has parked. Picks and returns the next thread, and idles while
    /// there is none.
    pub(super) fn schedule(&self, number: usize, mut previous: &'static ModelThread) -> &'static ModelThread {
        let ModelCpu { cpu, idle, event } = &self.all[number];
        loop {
            if let Some(next) = self.cpus.pick_next_or_idle(cpu, no_time) {
                self.reschedule(self.cpus.reschedule_stealer(cpu));
                Self::switch(previous, next);
                assert!(!self.cpus.is_idle(cpu.number()), "a busy CPU is marked idle");
                return next;
            }
            Self::switch(previous, cpu.switch_to_idle(idle));
            previous = idle;
            event.wait();
        }
    }
}
