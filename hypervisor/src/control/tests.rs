//! Controlled threads with a processor that only sleeps.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::{Controller, Leash};
use crate::boot::{Entry, Tsc};
use crate::engine::debug::{DebugControl, DebugEvent, Registers};
use crate::engine::{EngineError, Exit, Vcpu};

const BREAKPOINT: DebugEvent = DebugEvent::Breakpoint(0x1000);

/// Nothing here takes so long, even on a busy machine.
const LONG: Duration = Duration::from_secs(60);

/// Each run takes some time. While it is debugged, some end with an event.
#[derive(Debug)]
pub(crate) struct Sleeper {
    runs: u64,
    is_debugged: bool,
    /// After how many runs something happens.
    period: u64,
    event: DebugEvent,
    /// How many events the guest has got; read as rax.
    given_back: u64,
}

impl Vcpu for Sleeper {
    fn self_test(&mut self) -> Result<(), EngineError> {
        Ok(())
    }

    fn tsc(&self) -> Result<Tsc, EngineError> {
        Ok(Tsc::default())
    }

    fn enter(&mut self, _: &Entry) -> Result<(), EngineError> {
        Ok(())
    }

    fn run(&mut self) -> Result<Exit<'_>, EngineError> {
        std::thread::sleep(Duration::from_millis(1));
        self.runs += 1;
        let is_due = self.is_debugged && self.runs.is_multiple_of(self.period);
        Ok(if is_due { Exit::Debug(self.event) } else { Exit::Interrupted })
    }

    fn failure(&mut self) -> String {
        String::new()
    }

    fn failed_at_breakpoint(&mut self) -> Option<DebugEvent> {
        None
    }

    fn registers(&mut self) -> Result<Registers, EngineError> {
        let mut registers = Registers { instruction: self.runs, ..Registers::default() };
        registers.general[0] = self.given_back;
        Ok(registers)
    }

    fn set_registers(&mut self, registers: &Registers) -> Result<(), EngineError> {
        self.runs = registers.instruction;
        Ok(())
    }

    fn translate(&mut self, address: u64) -> Option<u64> {
        Some(address)
    }

    fn set_debug(&mut self, control: &DebugControl) -> Result<(), EngineError> {
        self.is_debugged = control.breakpoints;
        Ok(())
    }

    fn give_back(&mut self, _: DebugEvent) -> Result<(), EngineError> {
        self.given_back += 1;
        Ok(())
    }
}

fn run(mut vcpu: Sleeper, leash: &Leash) {
    let mut goes_on = leash.may_run(&mut vcpu);
    while goes_on {
        goes_on = match vcpu.run() {
            Ok(Exit::Debug(event)) => leash.stopped(&mut vcpu, event),
            _ => leash.interrupted(&mut vcpu),
        };
    }
}

fn sleepers(count: usize, period: u64, event: DebugEvent) -> Vec<Sleeper> {
    let sleeper = || Sleeper { runs: 0, is_debugged: false, period, event, given_back: 0 };
    std::iter::repeat_with(sleeper).take(count).collect()
}

/// Threads for processors.
fn start<V: Vcpu + 'static>(vcpus: Vec<V>, run: impl Fn(V, Leash) + Clone + Send + 'static) -> Controller {
    let (mut controller, leashes) = Controller::prepare(vcpus.len()).unwrap();
    let threads = vcpus.into_iter().zip(leashes).map(|(vcpu, leash)| {
        let run = run.clone();
        std::thread::spawn(move || run(vcpu, leash))
    });
    controller.attach(threads);
    controller
}

/// Processors to which this happens each time they have run so often.
pub(crate) fn eventful(count: usize, period: u64, event: DebugEvent) -> Controller {
    start(sleepers(count, period, event), |vcpu, leash| run(vcpu, &leash))
}

fn controller(count: usize) -> Controller {
    eventful(count, 3, BREAKPOINT)
}

fn runs(controller: &Controller, number: usize) -> Option<u64> {
    controller.ask(number, |vcpu| vcpu.registers().unwrap().instruction)
}

#[test]
fn threads_begin_paused() {
    let controller = controller(2);
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!((runs(&controller, 0), runs(&controller, 1)), (Some(0), Some(0)));
    assert_eq!(runs(&controller, 2), None);
    controller.end(Duration::MAX);
}

#[test]
fn only_paused_processors_answer() {
    let mut controller = controller(2);
    controller.run(0);
    assert_eq!((runs(&controller, 0), runs(&controller, 1)), (None, Some(0)));
    assert!(controller.is_running());
    let started = Instant::now();
    let seen = loop {
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(controller.pause(), []);
        assert!(!controller.is_running());
        match runs(&controller, 0).unwrap() {
            0 => assert!(started.elapsed() < LONG, "it never runs"),
            seen => break seen,
        }
        controller.run(0);
    };
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!(runs(&controller, 0), Some(seen), "it runs though it was paused");
    controller.end(Duration::MAX);
}

#[test]
fn a_processor_that_comes_to_something_says_so_once() {
    let mut controller = controller(2);
    let control = DebugControl { breakpoints: true, ..DebugControl::default() };
    controller.ask(1, move |vcpu| vcpu.set_debug(&control).unwrap()).unwrap();
    controller.run_all();
    let started = Instant::now();
    let stop = loop {
        match controller.next_stop() {
            Some(stop) => break stop,
            None => assert!(started.elapsed() < LONG, "it does not stop"),
        }
    };
    assert_eq!(stop, (1, BREAKPOINT));
    assert_eq!(controller.next_stop(), None);
    assert_eq!(controller.pause(), []);
    assert_eq!(runs(&controller, 1), Some(3));
    controller.end(Duration::MAX);
}

#[test]
fn ending_reaches_threads_that_run_and_threads_that_wait() {
    let ended = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&ended);
    let mut controller = start(sleepers(2, 3, BREAKPOINT), move |vcpu, leash| {
        run(vcpu, &leash);
        counter.fetch_add(1, Ordering::Relaxed);
    });
    controller.run(1);
    controller.end(Duration::MAX);
    assert_eq!(ended.load(Ordering::Relaxed), 2);
}

#[test]
fn a_thread_that_has_ended_is_not_waited_for() {
    let mut controller = start(sleepers(1, 3, BREAKPOINT), |mut vcpu, leash| {
        assert!(leash.may_run(&mut vcpu));
    });
    controller.run_all();
    assert_eq!(controller.pause(), []);
    assert_eq!(runs(&controller, 0), None);
    controller.run_all();
    assert!(!controller.is_running());
    controller.end(Duration::MAX);
}
