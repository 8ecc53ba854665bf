//! Threads that interrupt others: by timers, wake-ups of other CPUs, new threads, freed memory, and a disk.

use std::fmt;
use std::fs::File;
use std::hint::black_box;
use std::io::{ErrorKind, Read, Seek};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, Scope};
use std::time::Duration;

use crate::control;
use crate::registers::{RegisterSet, Registers};

/// Bytes of an allocation that the kernel's heap maps for itself, so that freeing it flushes the TLBs of all
/// CPUs.
const LARGE: usize = 8 << 20;

/// Distance of written bytes in it.
const STRIDE: usize = 128 << 10;

/// Pause between two disturbances of a kind, so that the CPUs are idle at times and steal threads.
const PAUSE: Duration = Duration::from_micros(200);

/// Number of disturbances, by kind.
#[derive(Debug, Default)]
pub(crate) struct Disturbances {
    wake_ups: AtomicUsize,
    control_checks: AtomicUsize,
    frees: AtomicUsize,
    disk_reads: AtomicUsize,
    has_disk: bool,
}

impl fmt::Display for Disturbances {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [wake_ups, checks, frees, reads] = self.counters().map(|counter| counter.load(Relaxed));
        write!(
            out,
            "{wake_ups} wake-ups, {checks} checks of control words, {frees} mappings, {reads} disk reads"
        )
    }
}

impl Disturbances {
    pub(crate) fn new(disk: Option<&str>) -> Self {
        Self { has_disk: disk.is_some(), ..Self::default() }
    }

    const fn counters(&self) -> [&AtomicUsize; 4] {
        [&self.wake_ups, &self.control_checks, &self.frees, &self.disk_reads]
    }

    /// Returns true if each kind has occurred at least so many times.
    pub(crate) fn have_occurred(&self, times: usize) -> bool {
        let counters = self.counters();
        let used = if self.has_disk { counters.len() } else { counters.len() - 1 };
        counters[..used].iter().all(|counter| counter.load(Relaxed) >= times)
    }

    /// Starts the threads, which end when `is_over` says so.
    pub(crate) fn start<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        disk: Option<&'scope str>,
        is_over: &'scope (dyn Fn() -> bool + Sync),
    ) {
        let (to_peer, from_here) = mpsc::channel();
        let (to_here, from_peer) = mpsc::channel();
        scope.spawn(move || from_here.into_iter().try_for_each(|number: usize| to_here.send(number)));
        repeat(scope, &self.wake_ups, is_over, move |number| wake(number, &to_peer, &from_peer));
        repeat(scope, &self.control_checks, is_over, control::check);
        repeat(scope, &self.frees, is_over, |_| map_and_unmap());
        if let Some(name) = disk {
            let mut file = File::open(name).unwrap_or_else(|error| panic!("{name}: {error}"));
            repeat(scope, &self.disk_reads, is_over, move |_| read(&mut file));
        }
    }
}

/// Makes a thread disturb others. It also checks that it finds the x87 stack empty, whatever it has
/// interrupted.
fn repeat<'scope>(
    scope: &'scope Scope<'scope, '_>,
    counter: &'scope AtomicUsize,
    is_over: &'scope (dyn Fn() -> bool + Sync),
    mut disturb: impl FnMut(usize) + Send + 'scope,
) {
    scope.spawn(move || {
        for number in 0.. {
            if is_over() {
                return;
            }
            disturb(number);
            Registers::check_without_waiting(RegisterSet::Sse, number);
            counter.fetch_add(1, Relaxed);
            thread::sleep(PAUSE);
        }
    });
}

/// Wakes a thread, and waits until it has woken this one.
fn wake(number: usize, to_peer: &Sender<usize>, from_peer: &Receiver<usize>) {
    to_peer.send(number).expect("the peer has ended");
    assert_eq!(from_peer.recv(), Ok(number), "a message");
}

fn map_and_unmap() {
    let mut memory = Vec::<u8>::with_capacity(LARGE);
    for offset in (0..LARGE).step_by(STRIDE) {
        memory.spare_capacity_mut()[offset].write(1);
    }
    black_box(memory);
}

fn read(file: &mut File) {
    let mut buffer = [0; 4096];
    file.rewind().expect("cannot rewind the disk");
    match file.read_exact(&mut buffer) {
        Ok(()) => assert!(buffer.iter().all(|byte| *byte == 0), "the disk's bytes are not zero"),
        Err(error) => assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "cannot read the disk"),
    }
}
