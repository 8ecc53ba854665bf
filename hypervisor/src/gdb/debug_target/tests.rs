//! The debug target with vCPUs that stop at debug events.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gdbstub::target::ext::breakpoints::WatchKind;
use vm_memory::{Bytes, GuestAddress};

use super::{DebugTarget, ResumeActions, StopReason};
use crate::engine::debug::{DebugEvent, INT3};
use crate::gdb::breakpoints::MAX_BREAKPOINTS;
use crate::gdb::debug_registers::{BreakpointTrigger, WatchRequest};
use crate::gdb::fuzzing::model::ModelVcpus;
use crate::memory::Memory;
use crate::vcpu::manager::tests::start_sleeping;
use crate::vcpu::shutdown::VmHandle;

const WATCH: WatchRequest =
    WatchRequest { address: 0x2000, length: 8, trigger: BreakpointTrigger::Watch(WatchKind::Write) };

/// Timeout of each wait, with room for a loaded host.
const TIMEOUT: Duration = Duration::from_secs(150);

fn target(cpus: usize, period: u64, event: DebugEvent) -> DebugTarget {
    let memory = Memory::new("8M".parse().unwrap()).unwrap();
    let vm = Arc::new(VmHandle::new().unwrap());
    DebugTarget::new(start_sleeping(cpus, period, event), vm, memory, 0)
}

fn next_stop(target: &mut DebugTarget) -> (usize, StopReason) {
    let started = Instant::now();
    loop {
        if let Some(stop) = target.next_stop() {
            return stop;
        }
        assert!(started.elapsed() < TIMEOUT, "no vCPU stops");
    }
}

fn shut_down(mut target: DebugTarget) {
    target.pause();
    target.into_vcpus().shut_down(Duration::MAX);
}

#[test]
fn simultaneous_watchpoint_hits_are_reported_in_turn() {
    let mut target = target(2, 1, DebugEvent::Trap { step: false, hits: 1 });
    target.watch(WATCH).unwrap();
    target.run_vcpus().unwrap();
    let (first, stop) = next_stop(&mut target);
    assert_eq!(stop, StopReason::Watch(WatchKind::Write, 0x2000));
    assert!(!target.is_running());
    target.run_vcpus().unwrap();
    assert!(!target.is_running(), "a hit is pending");
    assert_eq!(next_stop(&mut target), (1 - first, stop));
    target.run_vcpus().unwrap();
    assert!(target.is_running());
    shut_down(target);
}

#[test]
fn pending_hit_of_removed_watchpoint_is_not_reported() {
    let mut target = target(2, 1, DebugEvent::Trap { step: false, hits: 1 });
    target.watch(WATCH).unwrap();
    target.run_vcpus().unwrap();
    next_stop(&mut target);
    target.unwatch(WATCH).unwrap();
    assert_eq!(target.next_stop(), None);
    shut_down(target);
}

#[test]
fn exceptions_of_the_guest_are_injected() {
    let mut target = target(1, 2, DebugEvent::Breakpoint(0x3000));
    let started = Instant::now();
    let mut injected = 0;
    while injected <= 1 {
        assert!(started.elapsed() < TIMEOUT, "{injected}");
        target.run_vcpus().unwrap();
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(50) {
            assert_eq!(target.next_stop(), None);
        }
        target.pause();
        injected = target.vcpus.call(0, |vcpu| vcpu.registers().unwrap().general[0]).unwrap();
    }
    shut_down(target);
}

#[test]
fn breakpoint_is_hidden_from_reads_and_removed_by_detach() {
    let mut target = target(1, 1, DebugEvent::Breakpoint(0x3000));
    let memory = target.memory.clone();
    let byte = || memory.guest().read_obj::<u8>(GuestAddress(0x3000)).unwrap();
    target.write(0, 0x3000, &[0x90]).unwrap();
    target.insert_breakpoint(0x3000).unwrap();
    target.insert_breakpoint(0x3000).unwrap();
    let mut read = [0];
    assert_eq!((target.read(0, 0x3000, &mut read), read, byte()), (1, [0x90], 0xcc));
    target.run_vcpus().unwrap();
    assert_eq!(next_stop(&mut target), (0, StopReason::Breakpoint));
    target.detach();
    assert_eq!(byte(), 0x90);
    assert!(target.is_running());
    shut_down(target);
}

#[test]
fn breakpoint_needs_memory() {
    let mut target = target(1, 1, DebugEvent::Breakpoint(0));
    assert_eq!(target.insert_breakpoint(1 << 40), None);
    assert_eq!(target.remove_breakpoint(1 << 40), None);
    assert_eq!(target.write(0, 1 << 40, &[0xcc]), None);
    shut_down(target);
}

#[test]
fn only_requested_steps_are_reported() {
    let mut target = target(2, 1, DebugEvent::Trap { step: true, hits: 0 });
    target.resume_actions().steps.insert(1);
    target.run_vcpus().unwrap();
    assert_eq!(next_stop(&mut target), (1, StopReason::Step));
    let runs = |number| target.vcpus.call(number, |vcpu| vcpu.registers().unwrap().rip);
    assert_eq!((runs(0), runs(1)), (Some(0), Some(1)), "the other vCPU ran too");
    shut_down(target);
}

#[test]
fn all_vcpus_run_unless_scheduler_is_locked() {
    let mut actions = ResumeActions::default();
    assert_eq!(actions.runs(2), [(0, false), (1, false)]);
    actions.continues.insert(1);
    assert_eq!(actions.runs(2).len(), 2);
    actions.is_scheduler_locked = true;
    assert_eq!(actions.runs(2), [(1, false)]);
}

#[test]
fn unknown_vcpus_do_not_run() {
    let actions = ResumeActions { steps: [7].into(), ..ResumeActions::default() };
    assert_eq!(actions.runs(2), []);
}

/// Each breakpoint takes memory of uhyve, so gdb gets an error if it sets too many.
#[test]
fn breakpoints_are_limited() {
    let memory = Memory::new("8M".parse().unwrap()).unwrap();
    let vm = Arc::new(VmHandle::new().unwrap());
    let vcpus = ModelVcpus::new(memory.guest());
    let mut target = DebugTarget::new(vcpus, vm, memory, 0);
    for address in 0..MAX_BREAKPOINTS as u64 {
        assert_eq!(target.insert_breakpoint(address), Some(()), "{address}");
    }
    let next = MAX_BREAKPOINTS as u64;
    assert_eq!(target.insert_breakpoint(next), None);
    assert_eq!(target.write(0, next, &[INT3]), None);
    assert_eq!(target.write(0, next, &[0x90]), Some(()));
    target.remove_breakpoint(0).unwrap();
    assert_eq!(target.insert_breakpoint(next), Some(()));
}
