//! Starting threads with priorities and CPUs, which std does not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use hermit_abi::{EAGAIN, EDEADLK, EINVAL};

use super::calls::{self, ErrnoResult};
use super::raw_thread::{self, ANY_CPU, NORMAL_PRIORITY, cpu};
use super::support::wait_until;

const MAX_PRIORITY: u8 = 30;

/// Number of times that a thread checks its CPU.
const CPU_CHECKS: usize = 400;

pub(crate) fn spawn() {
    priorities();
    priorities_change();
    cpus();
    refusals();
    joins();
}

/// Starts a thread with `spawn` or `spawn2`.
fn start(second: bool, priority: u8, core: isize, work: impl FnOnce() + Send + 'static) -> ErrnoResult<u32> {
    if second {
        raw_thread::spawn2(priority, 1 << 18, core, work)
    } else {
        raw_thread::spawn(priority, core, work)
    }
}

fn priorities() {
    assert_eq!(calls::priority(), NORMAL_PRIORITY, "the main thread's priority");
    for priority in 0..=MAX_PRIORITY {
        for second in [false, true] {
            let work = move || assert_eq!(calls::priority(), priority);
            let thread = start(second, priority, ANY_CPU, work).expect("no thread was started");
            assert_eq!(calls::join(thread), Ok(0));
        }
    }
}

fn priorities_change() {
    static WANTED: AtomicU32 = AtomicU32::new(7);
    let thread = raw_thread::spawn(7, ANY_CPU, || {
        for priority in [7, 0, MAX_PRIORITY] {
            wait_until("a priority", || WANTED.load(Ordering::SeqCst) == priority.into());
            assert_eq!(calls::priority(), priority);
            WANTED.store(u32::MAX, Ordering::SeqCst);
            // A busy thread of high priority would keep the main thread from changing it.
            while WANTED.load(Ordering::SeqCst) == u32::MAX && priority != MAX_PRIORITY {
                calls::usleep(1000);
            }
        }
    });
    let thread = thread.expect("no thread was started");
    for priority in [0, MAX_PRIORITY] {
        wait_until("a thread that looks at its priority", || WANTED.load(Ordering::SeqCst) == u32::MAX);
        calls::set_priority(thread, priority);
        WANTED.store(priority.into(), Ordering::SeqCst);
    }
    assert_eq!(calls::join(thread), Ok(0));
    // These threads do not exist any more.
    calls::set_priority(thread, 3);
    calls::set_priority(u32::MAX, 3);
    assert_eq!(calls::priority(), NORMAL_PRIORITY);
}

/// A thread stays on its requested CPU, however busy that is.
fn cpus() {
    static DONE: AtomicBool = AtomicBool::new(false);
    let busy: Vec<_> = (0..=calls::cpus())
        .map(|_| {
            let work = || wait_until("the others", || DONE.load(Ordering::SeqCst));
            raw_thread::spawn(NORMAL_PRIORITY, ANY_CPU, work).expect("no thread was started")
        })
        .collect();
    let mut seen = Vec::new();
    for number in 0..calls::cpus() {
        let found = Arc::new(AtomicU64::new(0));
        for second in [false, true] {
            let found = found.clone();
            let core = isize::try_from(number).expect("there are few CPUs");
            let thread = start(second, NORMAL_PRIORITY, core, move || {
                found.store(check_stays_on_cpu(), Ordering::SeqCst);
            });
            assert_eq!(calls::join(thread.expect("no thread was started")), Ok(0));
        }
        let own = found.load(Ordering::SeqCst);
        assert!(!seen.contains(&own), "CPU {number} is one of {seen:?}");
        seen.push(own);
    }
    DONE.store(true, Ordering::SeqCst);
    busy.into_iter().for_each(|thread| assert_eq!(calls::join(thread), Ok(0)));
}

/// Sleeps and yields; returns the CPU, which must not change.
fn check_stays_on_cpu() -> u64 {
    let here = cpu();
    for check in 0..CPU_CHECKS {
        if check % 10 == 0 {
            calls::usleep(200);
        } else {
            calls::yield_now();
        }
        assert_eq!(cpu(), here, "a thread left its CPU");
    }
    here
}

fn must_not_run() {
    panic!("this was not to be started");
}

fn refusals() {
    let beyond = isize::try_from(calls::cpus()).expect("there are few CPUs");
    for second in [false, true] {
        for priority in [MAX_PRIORITY + 1, u8::MAX] {
            assert_eq!(start(second, priority, ANY_CPU, must_not_run), Err(EINVAL), "priority {priority}");
        }
        for core in [beyond, 64, -2, isize::MAX, isize::MIN, 1 << 32] {
            assert_eq!(start(second, NORMAL_PRIORITY, core, must_not_run), Err(EINVAL), "CPU {core}");
        }
    }
    for size in [1 << 40, 1 << 46, isize::MAX.cast_unsigned(), usize::MAX - 4096, usize::MAX] {
        assert_eq!(
            raw_thread::spawn2(NORMAL_PRIORITY, size, ANY_CPU, must_not_run),
            Err(EAGAIN),
            "a stack of {size:#x}"
        );
    }
}

fn joins() {
    for thread in [0, 0xfff0, 0x7fff_ffff, u32::MAX] {
        assert_eq!(calls::join(thread), Err(EINVAL), "thread {thread:#x}");
    }
    joining_itself_is_a_deadlock();
    let thread =
        raw_thread::spawn(NORMAL_PRIORITY, ANY_CPU, || calls::usleep(10_000)).expect("no thread was started");
    // All threads that join it continue.
    let others = [(); 3].map(|()| {
        let join = move || assert_eq!(calls::join(thread), Ok(0));
        raw_thread::spawn(NORMAL_PRIORITY, ANY_CPU, join).expect("no thread was started")
    });
    assert_eq!(calls::join(thread), Ok(0));
    for other in others {
        assert_eq!(calls::join(other), Ok(0));
    }
    assert_eq!([calls::join(thread), calls::join(thread)], [Ok(0), Ok(0)], "it has ended");
}

fn joining_itself_is_a_deadlock() {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let thread = raw_thread::spawn(NORMAL_PRIORITY, ANY_CPU, || {
        wait_until("the own number", || NUMBER.load(Ordering::SeqCst) != 0);
        assert_eq!(calls::join(NUMBER.load(Ordering::SeqCst)), Err(EDEADLK));
    });
    let thread = thread.expect("no thread was started");
    NUMBER.store(thread, Ordering::SeqCst);
    assert_eq!(calls::join(thread), Ok(0));
}
