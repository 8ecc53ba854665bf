//! CPUs that look for threads, and look again when they are told.

extern crate std;

use std::vec::Vec;

use loom::sync::Mutex;

use super::{Actor, Bell, leak};
use crate::cpu::{Cpu, Cpus, Told};
use crate::policy::Fifo;

pub(super) type Policy = Fifo<Actor>;
type Ready = Mutex<Policy>;

struct Place {
    cpu: &'static Cpu<Actor, Policy, Ready>,
    idle: &'static Actor,
    bell: Bell,
}

/// The scheduler, and the bells by which CPUs are told.
pub(super) struct System {
    pub(super) cpus: Cpus<Actor, Policy, Ready>,
    all: Vec<Place>,
}

pub(super) fn no_time() -> u64 {
    0
}

impl System {
    /// So many CPUs, each of which runs a thread of its own.
    pub(super) fn new(count: u32) -> &'static Self {
        let cpus = Cpus::default();
        let all = (0..count).map(|number| {
            let cpu = leak(Cpu::new(number, Actor::new(usize::MAX), Mutex::default()));
            cpus.add(cpu);
            Place { cpu, idle: Actor::new(usize::MAX), bell: Bell::default() }
        });
        let all = all.collect();
        leak(Self { cpus, all })
    }

    pub(super) fn cpu(&self, number: usize) -> &'static Cpu<Actor, Policy, Ready> {
        self.all[number].cpu
    }

    /// A thread that waits, or is new, and last ran on this CPU.
    pub(super) fn actor(number: usize, cpu: u32, pinned: bool) -> &'static Actor {
        let actor = Actor::new(number);
        actor.entity.place(cpu, pinned);
        actor
    }

    /// Does what [`Told`] says.
    pub(super) fn tell(&self, told: Told) {
        if let Told::Cpu(number) = told {
            self.all[number as usize].bell.ring();
        }
    }

    pub(super) fn make_ready(&self, actor: &'static Actor) {
        self.tell(self.cpus.make_ready(actor));
    }

    pub(super) fn wake(&self, actor: &'static Actor) {
        self.tell(self.cpus.wake(actor));
    }

    /// A CPU switches from one thread to another, or goes on with the same.
    pub(super) fn switch(previous: &'static Actor, next: &'static Actor) {
        if !core::ptr::eq(previous, next) {
            next.enter();
            previous.leave();
        }
    }

    /// What a CPU does whose thread `previous` waits: it looks for another, idles, and looks again when it is told.
    pub(super) fn find(&self, number: usize, mut previous: &'static Actor) -> &'static Actor {
        let Place { cpu, idle, bell } = &self.all[number];
        loop {
            if let Some(next) = self.cpus.next_or_idle(cpu, no_time) {
                Self::switch(previous, next);
                assert!(!self.cpus.is_idle(cpu.number()), "a busy CPU counts as idle");
                return next;
            }
            Self::switch(previous, cpu.run_idle(idle));
            previous = idle;
            bell.wait();
        }
    }
}
