//! The works that are measured.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{env, process};

use crate::busy;

/// Figures with their names.
type Figures = Vec<(&'static str, f64)>;

/// A work, by its name on the command line.
type Work = (&'static str, fn(Duration) -> Figures);

/// All works.
pub(crate) const WORKS: [Work; 8] = [
    ("append", append),
    ("channels", channels),
    ("compute", compute),
    ("echo", echo),
    ("mutex", mutex),
    ("requests", requests),
    ("sleep", sleep),
    ("spawn", spawn),
];

/// Calls `step` for `time`; returns how often in a second.
fn rate(time: Duration, mut step: impl FnMut()) -> f64 {
    let start = Instant::now();
    let mut count = 0_u32;
    while start.elapsed() < time {
        step();
        count += 1;
    }
    f64::from(count) / start.elapsed().as_secs_f64()
}

/// Writes of a page at the end of a file, which begins anew at a megabyte.
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

/// The threads of `busy` alone.
fn compute(time: Duration) -> Figures {
    thread::sleep(time);
    Vec::new()
}

/// A connection over the loopback to a thread that sends each byte back.
fn echo_server() -> (TcpStream, JoinHandle<()>) {
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
    let client = TcpStream::connect(address).expect("no connection");
    let _: Result<(), _> = client.set_nodelay(true);
    (client, server)
}

/// Sends a byte and waits for the answer.
fn request(client: &mut TcpStream) {
    let mut byte = [1];
    client.write_all(&byte).expect("nothing was sent");
    client.read_exact(&mut byte).expect("no answer");
}

fn echo(time: Duration) -> Figures {
    let (mut client, server) = echo_server();
    let rounds = rate(time, || request(&mut client));
    drop(client);
    let _: thread::Result<()> = server.join();
    vec![("echo: rounds a second", rounds)]
}

/// A request each millisecond: when it is answered, from the time at which it was to be sent, in microseconds.
fn requests(time: Duration) -> Figures {
    const INTERVAL: Duration = Duration::from_millis(1);
    let (mut client, server) = echo_server();
    let start = Instant::now();
    let mut due = start;
    let mut times = Vec::new();
    while start.elapsed() < time {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        request(&mut client);
        times.push(due.elapsed());
        due += INTERVAL;
    }
    drop(client);
    let _: thread::Result<()> = server.join();
    let [median, late] = percentiles(times);
    vec![
        ("requests, 1,000 a second: answered after (us), p50", median),
        ("requests, 1,000 a second: answered after (us), p99", late),
    ]
}

/// Number of threads that lock the same mutex.
const LOCKERS: u32 = 4;

/// Threads that lock a mutex, compute, and unlock it. The figure is the least number of turns of a thread, of its share.
fn mutex(time: Duration) -> Figures {
    let (mutex, is_over) = (Arc::new(Mutex::new(())), Arc::new(AtomicBool::new(false)));
    let locker = || {
        let (mutex, is_over) = (Arc::clone(&mutex), Arc::clone(&is_over));
        thread::spawn(move || {
            let mut turns = 0_u32;
            while !is_over.load(Ordering::Relaxed) {
                let guard = mutex.lock();
                busy::round();
                turns += 1;
                drop(guard);
            }
            turns
        })
    };
    let threads: Vec<_> = (0..LOCKERS).map(|_| locker()).collect();
    thread::sleep(time);
    is_over.store(true, Ordering::Relaxed);
    let turns: Vec<f64> = threads.into_iter().map(|thread| thread.join().map_or(0.0, f64::from)).collect();
    let least = turns.iter().copied().fold(f64::MAX, f64::min);
    let share = least * f64::from(LOCKERS) / turns.iter().sum::<f64>();
    vec![("mutex: least share of a thread", share)]
}

/// Sleeps of a millisecond: by how much they end late, in microseconds.
fn sleep(time: Duration) -> Figures {
    const SLEEP: Duration = Duration::from_millis(1);
    let start = Instant::now();
    let mut late = Vec::new();
    while start.elapsed() < time {
        let begin = Instant::now();
        thread::sleep(SLEEP);
        late.push(begin.elapsed().saturating_sub(SLEEP));
    }
    let [median, late] = percentiles(late);
    vec![("sleep of 1 ms: late by (us), p50", median), ("sleep of 1 ms: late by (us), p99", late)]
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
