//! The works that are measured.
//!
//! A work is a typical activity of a server, such as echoing over a connection, locking a mutex or appending
//! to a file. It runs for a given time while other threads compute, and returns its rate or its latency. A
//! work that uses all the CPU time that it can get states its number of threads, so that its share of CPU
//! time can be compared with a fair share.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError, RwLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};
use std::{env, process};

use crate::busy;
use crate::http::Client;

/// Figures with their names.
type Figures = Vec<(&'static str, f64)>;

/// A work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    /// Name on the command line.
    pub(crate) name: &'static str,
    /// Measures the work for a given time.
    pub(crate) measure: fn(Duration) -> Figures,
    /// Number of threads of the work, if they use all the CPU time that they can get.
    pub(crate) threads: Option<u32>,
}

/// All works.
pub(crate) const WORKS: [Work; 11] = [
    work("append", append, Some(1)),
    work("channels", channels, Some(2)),
    work("condvar", condvar, Some(LOCKERS)),
    work("echo", echo, Some(2)),
    work("http", http, None),
    work("mutex", mutex, Some(LOCKERS)),
    work("rename", rename, Some(LOCKERS)),
    work("rwlock", rwlock, Some(LOCKERS)),
    work("sleep", sleep, None),
    work("spawn", spawn, Some(2)),
    work("timers", timers, None),
];

const fn work(name: &'static str, measure: fn(Duration) -> Figures, threads: Option<u32>) -> Work {
    Work { name, measure, threads }
}

/// Calls `step` repeatedly for `time`. Returns the number of calls per second.
fn rate(time: Duration, mut step: impl FnMut()) -> f64 {
    let start = Instant::now();
    let mut count = 0_u32;
    while start.elapsed() < time {
        step();
        count += 1;
    }
    f64::from(count) / start.elapsed().as_secs_f64()
}

/// Appends pages to a file. At a size of 1 MiB, begins again with an empty file.
fn append(time: Duration) -> Figures {
    const PAGES: u32 = 256;
    let path = env::temp_dir().join(format!("mixed_bench.{}", process::id()));
    let mut file = File::create(&path).expect("no file");
    let mut pages = 0_u32;
    let rounds = rate(time, || {
        file.write_all(&[1; 4096]).expect("nothing was written");
        pages += 1;
        if pages.is_multiple_of(PAGES) {
            file.set_len(0).expect("the file keeps its length");
            file.seek(SeekFrom::Start(0)).expect("the file has no start");
        }
    });
    drop(file);
    fs::remove_file(&path).expect("the file stays");
    vec![("append of 4 KiB: a second", rounds)]
}

fn channels(time: Duration) -> Figures {
    let (to, from) = mpsc::channel::<()>();
    let (back_to, back_from) = mpsc::channel();
    let other = thread::spawn(move || {
        while from.recv().is_ok() {
            let _: Result<(), _> = back_to.send(());
        }
    });
    let rounds = rate(time, || {
        let _: Result<(), _> = to.send(());
        let _: Result<(), _> = back_from.recv();
    });
    drop(to);
    let _: thread::Result<()> = other.join();
    vec![("channels: rounds a second", rounds)]
}

/// Sends bytes over the loopback interface. Another thread sends each byte back.
fn echo(time: Duration) -> Figures {
    let listener = TcpListener::bind("127.0.0.1:0").expect("no port");
    let address = listener.local_addr().expect("no address");
    let server = thread::spawn(move || {
        let (mut connection, _) = listener.accept().expect("no connection");
        let _: Result<(), _> = connection.set_nodelay(true);
        let mut byte = [0];
        while connection.read_exact(&mut byte).is_ok() {
            let _: Result<(), _> = connection.write_all(&byte);
        }
    });
    let mut client = TcpStream::connect(address).expect("no connection");
    let _: Result<(), _> = client.set_nodelay(true);
    let mut byte = [1];
    let rounds = rate(time, || {
        client.write_all(&byte).expect("nothing was sent");
        client.read_exact(&mut byte).expect("no answer");
    });
    drop(client);
    let _: thread::Result<()> = server.join();
    vec![("echo: rounds a second", rounds)]
}

/// Sends a request each millisecond. The figures are the times in microseconds from the planned time of a
/// request to its answer.
fn http(time: Duration) -> Figures {
    const INTERVAL: Duration = Duration::from_millis(1);
    let (mut client, server) = Client::with_server().expect("no connection");
    let start = Instant::now();
    let mut due = start;
    let mut times = Vec::new();
    while start.elapsed() < time {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        client.get().expect("no answer");
        times.push(due.elapsed());
        due += INTERVAL;
    }
    drop(client);
    let _: thread::Result<_> = server.join();
    let [median, late] = percentiles(times);
    vec![
        ("HTTP, 1,000 requests a second: answered after (us), p50", median),
        ("HTTP, 1,000 requests a second: answered after (us), p99", late),
    ]
}

/// Number of threads that lock the same mutex.
const LOCKERS: u32 = 4;

/// Runs [`LOCKERS`] threads for `time`, which repeatedly call `turn` with their numbers. Returns the smallest
/// number of turns of a thread, relative to an equal share.
fn least_share(time: Duration, turn: impl Fn(u32) + Sync) -> f64 {
    let is_over = AtomicBool::new(false);
    let take_turns = |number| {
        let mut turns = 0_u32;
        while !is_over.load(Ordering::Relaxed) {
            turn(number);
            turns += 1;
        }
        f64::from(turns)
    };
    let turns: Vec<f64> = thread::scope(|scope| {
        let take_turns = &take_turns;
        let threads: Vec<_> = (0..LOCKERS).map(|number| scope.spawn(move || take_turns(number))).collect();
        thread::sleep(time);
        is_over.store(true, Ordering::Relaxed);
        threads.into_iter().map(|thread| thread.join().unwrap_or_default()).collect()
    });
    turns.iter().copied().fold(f64::MAX, f64::min) * f64::from(LOCKERS) / turns.iter().sum::<f64>()
}

/// Runs threads that lock a mutex, compute, and unlock it.
fn mutex(time: Duration) -> Figures {
    let mutex = Mutex::new(());
    let share = least_share(time, |_| {
        let _guard = mutex.lock();
        busy::round();
    });
    vec![("mutex: least share of a thread", share)]
}

/// Runs threads that lock a read-write lock for writing, compute, and unlock it.
fn rwlock(time: Duration) -> Figures {
    let lock = RwLock::new(());
    let share = least_share(time, |_| {
        let _guard = lock.write();
        busy::round();
    });
    vec![("rwlock: least share of a thread", share)]
}

/// Runs threads that wait with a condition variable until a flag is free, take the flag, compute, and free
/// the flag.
fn condvar(time: Duration) -> Figures {
    let (is_taken, is_free) = (Mutex::new(false), Condvar::new());
    let lock = || is_taken.lock().unwrap_or_else(PoisonError::into_inner);
    let share = least_share(time, |_| {
        let taken = is_free.wait_while(lock(), |taken| *taken);
        *taken.unwrap_or_else(PoisonError::into_inner) = true;
        busy::round();
        *lock() = false;
        is_free.notify_one();
    });
    vec![("condvar: least share of a thread", share)]
}

/// Runs threads that rename files in the same directory. They compete for locks of the kernel.
fn rename(time: Duration) -> Figures {
    let folder = env::temp_dir().join(format!("mixed_bench.{}", process::id()));
    fs::create_dir(&folder).expect("no folder");
    let paths = |number| ["a", "b"].map(|end| folder.join(format!("{number}{end}")));
    for number in 0..LOCKERS {
        File::create(&paths(number)[0]).expect("no file");
    }
    let share = least_share(time, |number| {
        let [one, other] = paths(number);
        fs::rename(&one, &other).expect("not renamed");
        fs::rename(&other, &one).expect("not renamed");
    });
    fs::remove_dir_all(&folder).expect("the folder stays");
    vec![("rename: least share of a thread", share)]
}

/// Sleeps repeatedly for `time`. Returns the delays by which the sleeps end late.
fn sleeps(length: Duration, time: Duration) -> Vec<Duration> {
    let start = Instant::now();
    let mut late = Vec::new();
    while start.elapsed() < time {
        let begin = Instant::now();
        thread::sleep(length);
        late.push(begin.elapsed().saturating_sub(length));
    }
    late
}

/// Sleeps for a millisecond repeatedly. The figures are the delays by which the sleeps end late, in
/// microseconds.
fn sleep(time: Duration) -> Figures {
    let [median, late] = percentiles(sleeps(Duration::from_millis(1), time));
    vec![("sleep of 1 ms: late by (us), p50", median), ("sleep of 1 ms: late by (us), p99", late)]
}

/// Runs as many timers as a server has: 100 threads, which sleep for 10 to 17 ms.
fn timers(time: Duration) -> Figures {
    let lengths = || (0..100_u64).map(|number| Duration::from_millis(10 + number % 8));
    let threads: Vec<_> = lengths().map(|length| thread::spawn(move || sleeps(length, time))).collect();
    let late = threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect();
    let [median, late] = percentiles(late);
    vec![("100 timers: late by (us), p50", median), ("100 timers: late by (us), p99", late)]
}

/// Returns the median and the 99th percentile in microseconds.
fn percentiles(mut times: Vec<Duration>) -> [f64; 2] {
    times.sort_unstable();
    [50, 99].map(|percent| {
        times.get(times.len() * percent / 100).map_or(f64::NAN, |time| time.as_secs_f64() * 1e6)
    })
}

fn spawn(time: Duration) -> Figures {
    let rounds = rate(time, || {
        let _: thread::Result<()> = thread::spawn(|| ()).join();
    });
    vec![("spawn and join: a second", rounds)]
}
