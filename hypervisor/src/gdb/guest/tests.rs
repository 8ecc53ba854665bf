//! The debugger's machine with processors to which things happen.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gdbstub::target::ext::breakpoints::WatchKind;
use vm_memory::{Bytes, GuestAddress};

use super::{Guest, Plan, Stop};
use crate::control::tests::eventful;
use crate::engine::debug::DebugEvent;
use crate::gdb::watchpoints::{Kind, Request};
use crate::machine::Machine;
use crate::memory::Memory;

const WATCH: Request = Request { address: 0x2000, length: 8, kind: Kind::Watch(WatchKind::Write) };

/// Nothing here takes so long, even on a busy machine.
const LONG: Duration = Duration::from_secs(60);

fn guest(cpus: usize, period: u64, event: DebugEvent) -> Guest {
    let memory = Memory::new("8M".parse().unwrap()).unwrap();
    Guest::new(eventful(cpus, period, event), Arc::new(Machine::bare()), memory, 0)
}

fn next_stop(guest: &mut Guest) -> (usize, Stop) {
    let started = Instant::now();
    loop {
        if let Some(stop) = guest.next_stop() {
            return stop;
        }
        assert!(started.elapsed() < LONG, "nothing stops");
    }
}

fn end(mut guest: Guest) {
    guest.stop();
    guest.into_controller().end(Duration::MAX);
}

#[test]
fn watchpoints_that_come_true_together_are_heard_of_one_after_the_other() {
    let mut guest = guest(2, 1, DebugEvent::Trap { step: false, hits: 1 });
    guest.watch(WATCH).unwrap();
    guest.run().unwrap();
    let (first, stop) = next_stop(&mut guest);
    assert_eq!(stop, Stop::Watch(WatchKind::Write, 0x2000));
    assert!(!guest.is_running());
    guest.run().unwrap();
    assert!(!guest.is_running(), "a stop was waiting");
    assert_eq!(next_stop(&mut guest), (1 - first, stop));
    guest.run().unwrap();
    assert!(guest.is_running());
    end(guest);
}

#[test]
fn a_watchpoint_that_is_gone_is_not_heard_of() {
    let mut guest = guest(2, 1, DebugEvent::Trap { step: false, hits: 1 });
    guest.watch(WATCH).unwrap();
    guest.run().unwrap();
    next_stop(&mut guest);
    guest.unwatch(WATCH).unwrap();
    assert_eq!(guest.next_stop(), None);
    end(guest);
}

#[test]
fn what_is_the_guests_goes_to_the_guest() {
    let mut guest = guest(1, 2, DebugEvent::Breakpoint(0x3000));
    let started = Instant::now();
    let mut given = 0;
    while given <= 1 {
        assert!(started.elapsed() < LONG, "{given}");
        guest.run().unwrap();
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(50) {
            assert_eq!(guest.next_stop(), None);
        }
        guest.stop();
        given = guest.controller.ask(0, |vcpu| vcpu.registers().unwrap().general[0]).unwrap();
    }
    end(guest);
}

#[test]
fn a_breakpoint_is_set_hidden_and_hit_and_gone_when_gdb_is() {
    let mut guest = guest(1, 1, DebugEvent::Breakpoint(0x3000));
    let memory = guest.memory.clone();
    let byte = || memory.guest().read_obj::<u8>(GuestAddress(0x3000)).unwrap();
    guest.write(0, 0x3000, &[0x90]).unwrap();
    guest.insert_breakpoint(0x3000).unwrap();
    guest.insert_breakpoint(0x3000).unwrap();
    let mut read = [0];
    assert_eq!((guest.read(0, 0x3000, &mut read), read, byte()), (1, [0x90], 0xcc));
    guest.run().unwrap();
    assert_eq!(next_stop(&mut guest), (0, Stop::Breakpoint));
    guest.let_go();
    assert_eq!(byte(), 0x90);
    assert!(guest.is_running());
    end(guest);
}

#[test]
fn a_breakpoint_needs_memory() {
    let mut guest = guest(1, 1, DebugEvent::Breakpoint(0));
    assert_eq!(guest.insert_breakpoint(1 << 40), None);
    assert_eq!(guest.remove_breakpoint(1 << 40), None);
    assert_eq!(guest.write(0, 1 << 40, &[0xcc]), None);
    end(guest);
}

#[test]
fn a_step_is_heard_of_if_one_was_wanted() {
    let mut guest = guest(2, 1, DebugEvent::Trap { step: true, hits: 0 });
    guest.plan().steps.insert(1);
    guest.run().unwrap();
    assert_eq!(next_stop(&mut guest), (1, Stop::Step));
    let runs = |number| guest.controller.ask(number, |vcpu| vcpu.registers().unwrap().instruction);
    assert_eq!((runs(0), runs(1)), (Some(0), Some(1)), "the other one ran too");
    end(guest);
}

#[test]
fn all_run_unless_some_are_named() {
    let mut plan = Plan::default();
    assert_eq!(plan.runs(2), [(0, false), (1, false)]);
    plan.continues.insert(1);
    assert_eq!(plan.runs(2).len(), 2);
    plan.only_named = true;
    assert_eq!(plan.runs(2), [(1, false)]);
}

#[test]
fn processors_that_do_not_exist_do_not_run() {
    let plan = Plan { steps: [7].into(), ..Plan::default() };
    assert_eq!(plan.runs(2), []);
}
