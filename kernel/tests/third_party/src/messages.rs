//! crossbeam: channels, work-stealing queues, and epoch-based memory reclamation.

use std::iter;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam::channel::{self, Receiver, Sender, select};
use crossbeam::deque::{Injector, Stealer, Worker};
use crossbeam::epoch;

use crate::{TestResult, digest, ensure};

const THREADS: u64 = 4;
const MESSAGES: u64 = 5_000;

/// Time limit for reclamation.
const TIMEOUT: Duration = Duration::from_secs(150);

pub(crate) fn crossbeam() -> TestResult {
    let expected: u64 = (0..THREADS * MESSAGES).sum();
    let by_channels = channels()?;
    let by_stealing = stealing();
    ensure(by_channels == expected, || format!("the channels carried {by_channels}, not {expected}"))?;
    ensure(by_stealing == expected, || format!("the queues held {by_stealing}, not {expected}"))?;
    deferred()?;
    Ok(digest(&(by_channels, by_stealing)))
}

/// Several senders and several receivers, with channels that are full most of the time.
fn channels() -> Result<u64, String> {
    let (even, from_even) = channel::bounded(3);
    let (odd, from_odd) = channel::bounded(0);
    let sum = thread::scope(|scope| {
        for thread in 0..THREADS {
            let to = if thread % 2 == 0 { even.clone() } else { odd.clone() };
            scope.spawn(move || send(&to, thread));
        }
        drop((even, odd));
        let receivers = [0; 2].map(|_| scope.spawn(|| receive(from_even.clone(), from_odd.clone())));
        receivers.into_iter().map(|thread| thread.join().unwrap_or_default()).sum()
    });
    let (_open, silent) = channel::bounded::<u64>(1);
    let late = silent.recv_timeout(Duration::from_millis(5));
    ensure(late.is_err(), || format!("a silent channel gave {late:?}"))?;
    Ok(sum)
}

fn send(to: &Sender<u64>, thread: u64) {
    for number in 0..MESSAGES {
        // Fails if the receivers are gone; then the sum is wrong, which is reported.
        let _: Result<(), _> = to.send(thread * MESSAGES + number);
    }
}

/// Receives from two channels until both are closed; returns the sum.
fn receive(mut one: Receiver<u64>, mut other: Receiver<u64>) -> u64 {
    let mut sum = 0;
    let mut open = 2;
    while open > 0 {
        let (channel, message) = select! {
            recv(one) -> message => (&mut one, message),
            recv(other) -> message => (&mut other, message),
        };
        match message {
            Ok(number) => sum += number,
            Err(_) => {
                *channel = channel::never();
                open -= 1;
            }
        }
    }
    sum
}

/// Four threads take from a common queue and steal from each other; returns the sum.
fn stealing() -> u64 {
    let common = Injector::new();
    (0..THREADS * MESSAGES).for_each(|number| common.push(number));
    let workers: Vec<Worker<u64>> = iter::repeat_with(Worker::new_lifo).take(4).collect();
    let stealers: Vec<Stealer<u64>> = workers.iter().map(Worker::stealer).collect();
    thread::scope(|scope| {
        let threads: Vec<_> = workers
            .into_iter()
            .map(|own| scope.spawn(|| iter::from_fn(take_task(own, &common, &stealers)).sum::<u64>()))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_default()).sum()
    })
}

/// Takes from the thread's own queue, else from the common one, else from another thread's.
fn take_task<'a>(
    own: Worker<u64>,
    common: &'a Injector<u64>,
    stealers: &'a [Stealer<u64>],
) -> impl FnMut() -> Option<u64> + 'a {
    move || {
        own.pop().or_else(|| {
            let attempt =
                || common.steal_batch_and_pop(&own).or_else(|| stealers.iter().map(Stealer::steal).collect());
            iter::repeat_with(attempt).find(|steal| !steal.is_retry())?.success()
        })
    }
}

/// Deferred destructors run once no thread can access the value.
fn deferred() -> Result<(), String> {
    static DONE: AtomicU64 = AtomicU64::new(0);
    let before = DONE.load(Ordering::Acquire);
    let put_off = || {
        (0..100).for_each(|_| epoch::pin().defer(|| DONE.fetch_add(1, Ordering::AcqRel)));
        epoch::pin().flush();
    };
    thread::scope(|scope| (0..THREADS).for_each(|_| drop(scope.spawn(put_off))));
    let start = Instant::now();
    while DONE.load(Ordering::Acquire) < before + THREADS * 100 {
        ensure(start.elapsed() < TIMEOUT, || "what was put off was not done".to_owned())?;
        epoch::pin().flush();
    }
    Ok(())
}
