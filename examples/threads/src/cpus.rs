//! Every CPU works, and a thread that keeps one for itself does not keep others from working.

use std::collections::HashSet;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::arguments::Settings;
use crate::support::{check_patience, cpus, in_threads};

/// How often the threads meet.
const MEETINGS: usize = 100;

/// How many threads there are beside those that spin.
const OTHERS: usize = 6;

/// There are as many CPUs as the program was told.
pub(crate) fn expect(settings: &Settings) {
    if let Some(expected) = settings.cpus {
        assert_eq!(cpus(), expected, "the number of CPUs is not the one expected");
    }
}

/// As many threads as CPUs spin; others get their turn nevertheless, those that sleep and those that do not.
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
            check_patience(start, "every spinning thread has started");
            thread::yield_now();
        }
        for round in 0..20 {
            match index % 3 {
                0 => thread::sleep(Duration::from_millis(1)),
                1 => thread::yield_now(),
                _ => (0..round * 1_000).for_each(|_| spin_loop()),
            }
            check_patience(start, "others have done their work");
        }
        working.fetch_sub(1, Ordering::AcqRel);
    });
}

/// As many threads as CPUs, none of which ever yields, meet often; at some meeting each has a CPU of its own.
pub(crate) fn parallel(_: &Settings) {
    let threads = cpus();
    let places: Vec<AtomicUsize> = (0..threads).map(|_| AtomicUsize::new(0)).collect();
    let (arrived, spread, over) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    let start = Instant::now();
    let meet = |meeting: usize| {
        // Each time anew: there are many meetings, and each takes as long as the host has no time for a CPU.
        let start = Instant::now();
        arrived.fetch_add(1, Ordering::AcqRel);
        while arrived.load(Ordering::Acquire) < meeting * threads {
            check_patience(start, "all threads meet");
        }
    };
    in_threads(threads, |index| {
        for meeting in 0..MEETINGS {
            places[index].store(this_cpu(), Ordering::Release);
            meet(2 * meeting + 1);
            if index == 0 {
                let cpus: HashSet<_> = places.iter().map(|place| place.load(Ordering::Acquire)).collect();
                spread.fetch_add(usize::from(cpus.len() == threads), Ordering::AcqRel);
            }
            meet(2 * meeting + 2);
        }
        over.store(true, Ordering::Release);
    });
    let spread = spread.into_inner();
    println!(
        "{threads} threads had {threads} CPUs at {spread} of {MEETINGS} meetings in {:?}",
        start.elapsed()
    );
    assert!(over.into_inner() && spread > 0, "the threads never had a CPU each");
}

/// What tells the CPU that runs this from others: the address of the kernel's data for it, which are the first of these data.
/// A CPU that is a thread of another system has no number of its own that the processor would tell.
#[cfg(target_os = "hermit")]
fn this_cpu() -> usize {
    let data;
    // SAFETY: the kernel keeps GS at its data for the CPU; the load has no other effect.
    #[expect(unsafe_code, reason = "no call of the kernel says which CPU this is")]
    unsafe {
        std::arch::asm!("mov {}, gs:[0]", out(reg) data, options(nostack, readonly, preserves_flags));
    }
    data
}

/// The number of the CPU that runs this: its initial local APIC number (CPUID leaf 1, EBX bits 31 to 24).
#[cfg(not(target_os = "hermit"))]
fn this_cpu() -> usize {
    usize::try_from(std::arch::x86_64::__cpuid(1).ebx >> 24).unwrap_or_default()
}
