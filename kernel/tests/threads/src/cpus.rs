//! All CPUs run threads, and a thread that keeps a CPU busy does not starve others.

use std::collections::HashSet;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::arguments::Settings;
use crate::support::{check_timeout, cpus, in_threads};

/// Number of times that all threads synchronize.
const ROUNDS: usize = 100;

/// Number of threads besides the spinning ones.
const OTHERS: usize = 6;

/// Checks the number of CPUs against `--cpus-expected`.
pub(crate) fn expect(settings: &Settings) {
    if let Some(expected) = settings.cpus {
        assert_eq!(cpus(), expected, "the number of CPUs is not the one expected");
    }
}

/// As many threads as CPUs spin; other threads, sleeping and computing ones, are scheduled nevertheless.
pub(crate) fn busy(_: &Settings) {
    let (spinning, working) = (AtomicUsize::new(0), AtomicUsize::new(OTHERS));
    let spinners = cpus();
    let start = Instant::now();
    in_threads(spinners + OTHERS, |index| {
        if index < spinners {
            spinning.fetch_add(1, Ordering::AcqRel);
            while working.load(Ordering::Acquire) > 0 {
                spin_loop();
            }
            return;
        }
        while spinning.load(Ordering::Acquire) < spinners {
            check_timeout(start, "every spinning thread has started");
            thread::yield_now();
        }
        for round in 0..20 {
            match index % 3 {
                0 => thread::sleep(Duration::from_millis(1)),
                1 => thread::yield_now(),
                _ => (0..round * 1_000).for_each(|_| spin_loop()),
            }
            check_timeout(start, "others have done their work");
        }
        working.fetch_sub(1, Ordering::AcqRel);
    });
}

/// As many threads as CPUs spin and synchronize repeatedly; at least once each has a CPU of its own.
pub(crate) fn parallel(_: &Settings) {
    let threads = cpus();
    let cpu_of_thread: Vec<AtomicUsize> = (0..threads).map(|_| AtomicUsize::new(0)).collect();
    let (arrived, spread, over) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    let start = Instant::now();
    let synchronize = |round: usize| {
        // A time limit for each round: each takes as long as the host does not schedule a virtual CPU.
        let start = Instant::now();
        arrived.fetch_add(1, Ordering::AcqRel);
        while arrived.load(Ordering::Acquire) < round * threads {
            check_timeout(start, "all threads meet");
        }
    };
    in_threads(threads, |index| {
        for round in 0..ROUNDS {
            cpu_of_thread[index].store(this_cpu(), Ordering::Release);
            synchronize(2 * round + 1);
            if index == 0 {
                let cpus: HashSet<_> =
                    cpu_of_thread.iter().map(|place| place.load(Ordering::Acquire)).collect();
                spread.fetch_add(usize::from(cpus.len() == threads), Ordering::AcqRel);
            }
            synchronize(2 * round + 2);
        }
        over.store(true, Ordering::Release);
    });
    let spread = spread.into_inner();
    println!(
        "{threads} threads had {threads} CPUs at {spread} of {ROUNDS} meetings in {:?}",
        start.elapsed()
    );
    assert!(over.into_inner() && spread > 0, "the threads never had a CPU each");
}

/// Identifies this CPU: returns the first word of the kernel's per-CPU data, which is their address. A
/// virtual CPU that is a host thread has no hardware CPU number of its own.
#[cfg(target_os = "hermit")]
fn this_cpu() -> usize {
    let data;
    // SAFETY: the kernel keeps the GS base at its per-CPU data, which stay mapped; the load has no side
    // effects.
    #[expect(unsafe_code, reason = "no call of the kernel says which CPU this is")]
    unsafe {
        std::arch::asm!("mov {}, gs:[0]", out(reg) data, options(nostack, readonly, preserves_flags));
    }
    data
}

/// Identifies this CPU by its initial local APIC ID (CPUID leaf 1, EBX bits 31 to 24).
#[cfg(not(target_os = "hermit"))]
fn this_cpu() -> usize {
    usize::try_from(std::arch::x86_64::__cpuid(1).ebx >> 24).unwrap_or_default()
}
