//! The vCPU manager with vCPUs that only sleep.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::{VcpuEndpoint, VcpuManager};
use crate::engine::debug::{DebugControl, DebugEvent, Registers};
use crate::engine::{EngineError, Vcpu, VcpuExit};
use crate::image::boot::{KernelEntry, Tsc};

const BREAKPOINT: DebugEvent = DebugEvent::Breakpoint(0x1000);

/// Timeout of each wait, with room for a loaded host.
const TIMEOUT: Duration = Duration::from_secs(150);

/// vCPU whose runs take a millisecond. While it is debugged, every `period`-th run ends with an event.
#[derive(Debug)]
pub(crate) struct SleepingVcpu {
    runs: u64,
    is_debugged: bool,
    period: u64,
    event: DebugEvent,
    /// Number of injected exceptions. Tests read it as register rax.
    injected: u64,
}

impl Vcpu for SleepingVcpu {
    fn tsc(&self) -> Result<Tsc, EngineError> {
        Ok(Tsc::default())
    }

    fn set_entry(&mut self, _: &KernelEntry) -> Result<(), EngineError> {
        Ok(())
    }

    fn run(&mut self) -> Result<VcpuExit<'_>, EngineError> {
        std::thread::sleep(Duration::from_millis(1));
        self.runs += 1;
        let is_due = self.is_debugged && self.runs.is_multiple_of(self.period);
        Ok(if is_due { VcpuExit::Debug(self.event) } else { VcpuExit::Interrupted })
    }

    fn failure(&mut self) -> String {
        String::new()
    }

    fn failed_at_breakpoint(&mut self) -> Option<DebugEvent> {
        None
    }

    fn registers(&mut self) -> Result<Registers, EngineError> {
        let mut registers = Registers { rip: self.runs, ..Registers::default() };
        registers.general[0] = self.injected;
        Ok(registers)
    }

    fn set_registers(&mut self, registers: &Registers) -> Result<(), EngineError> {
        self.runs = registers.rip;
        Ok(())
    }

    fn translate(&mut self, address: u64) -> Option<u64> {
        Some(address)
    }

    fn set_debug(&mut self, control: &DebugControl) -> Result<(), EngineError> {
        self.is_debugged = control.breakpoints;
        Ok(())
    }

    fn inject_exception(&mut self, _: DebugEvent) -> Result<(), EngineError> {
        self.injected += 1;
        Ok(())
    }
}

fn run(mut vcpu: SleepingVcpu, endpoint: &VcpuEndpoint) {
    let mut is_running = endpoint.wait_for_run(&mut vcpu);
    while is_running {
        is_running = match vcpu.run() {
            Ok(VcpuExit::Debug(event)) => endpoint.stopped(&mut vcpu, event),
            _ => endpoint.interrupted(&mut vcpu),
        };
    }
}

fn sleeping_vcpus(count: usize, period: u64, event: DebugEvent) -> Vec<SleepingVcpu> {
    let vcpu = || SleepingVcpu { runs: 0, is_debugged: false, period, event, injected: 0 };
    std::iter::repeat_with(vcpu).take(count).collect()
}

/// Starts a thread for each vCPU.
fn start<V: Vcpu + 'static>(
    vcpus: Vec<V>,
    run: impl Fn(V, VcpuEndpoint) + Clone + Send + 'static,
) -> VcpuManager {
    let (mut manager, endpoints) = VcpuManager::new(vcpus.len()).unwrap();
    let threads = vcpus.into_iter().zip(endpoints).map(|(vcpu, endpoint)| {
        let run = run.clone();
        std::thread::spawn(move || run(vcpu, endpoint))
    });
    manager.attach(threads);
    manager
}

/// Starts vCPUs that stop with `event` after every `period`-th run.
pub(crate) fn start_sleeping(count: usize, period: u64, event: DebugEvent) -> VcpuManager {
    start(sleeping_vcpus(count, period, event), |vcpu, endpoint| run(vcpu, &endpoint))
}

fn manager(count: usize) -> VcpuManager {
    start_sleeping(count, 3, BREAKPOINT)
}

fn runs(manager: &VcpuManager, id: usize) -> Option<u64> {
    manager.call(id, |vcpu| vcpu.registers().unwrap().rip)
}

#[test]
fn vcpus_start_paused() {
    let manager = manager(2);
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!((runs(&manager, 0), runs(&manager, 1)), (Some(0), Some(0)));
    assert_eq!(runs(&manager, 2), None);
    manager.shut_down(Duration::MAX);
}

#[test]
fn call_works_on_paused_vcpus_only() {
    let mut manager = manager(2);
    manager.run(0);
    assert_eq!((runs(&manager, 0), runs(&manager, 1)), (None, Some(0)));
    assert!(manager.is_running());
    let started = Instant::now();
    let seen = loop {
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(manager.pause(), []);
        assert!(!manager.is_running());
        match runs(&manager, 0).unwrap() {
            0 => assert!(started.elapsed() < TIMEOUT, "the vCPU never runs"),
            seen => break seen,
        }
        manager.run(0);
    };
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!(runs(&manager, 0), Some(seen), "the vCPU runs though it was paused");
    manager.shut_down(Duration::MAX);
}

#[test]
fn debug_event_is_reported_once() {
    let mut manager = manager(2);
    let control = DebugControl { breakpoints: true, ..DebugControl::default() };
    manager.call(1, move |vcpu| vcpu.set_debug(&control).unwrap()).unwrap();
    manager.run_all();
    let started = Instant::now();
    let stop = loop {
        match manager.next_stop() {
            Some(stop) => break stop,
            None => assert!(started.elapsed() < TIMEOUT, "the vCPU does not stop"),
        }
    };
    assert_eq!(stop, (1, BREAKPOINT));
    assert_eq!(manager.next_stop(), None);
    assert_eq!(manager.pause(), []);
    assert_eq!(runs(&manager, 1), Some(3));
    manager.shut_down(Duration::MAX);
}

#[test]
fn shut_down_joins_running_and_paused_threads() {
    let ended = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&ended);
    let mut manager = start(sleeping_vcpus(2, 3, BREAKPOINT), move |vcpu, endpoint| {
        run(vcpu, &endpoint);
        counter.fetch_add(1, Ordering::Relaxed);
    });
    manager.run(1);
    manager.shut_down(Duration::MAX);
    assert_eq!(ended.load(Ordering::Relaxed), 2);
}

#[test]
fn exited_thread_is_not_waited_for() {
    let mut manager = start(sleeping_vcpus(1, 3, BREAKPOINT), |mut vcpu, endpoint| {
        assert!(endpoint.wait_for_run(&mut vcpu));
    });
    manager.run_all();
    assert_eq!(manager.pause(), []);
    assert_eq!(runs(&manager, 0), None);
    manager.run_all();
    assert!(!manager.is_running());
    manager.shut_down(Duration::MAX);
}
