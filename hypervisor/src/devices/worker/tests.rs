//! Tests of the worker, with its thread and real descriptors.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use vmm_sys_util::eventfd::EventFd;

use super::{Worker, WorkerError};
use crate::devices::console::{Console, Input, Output};
use crate::devices::virtio::test_utils::{BUFFERS, EchoDevice, InterruptCounter, TestDriver, start, write};
use crate::devices::virtio::{Interrupt, MmioTransport};

/// Long enough for anything, unless it never happens.
const LONG: Duration = Duration::from_secs(30);

/// Says that there was an interrupt.
#[derive(Debug)]
struct Line(Mutex<Sender<()>>);

impl Interrupt for Line {
    fn raise(&self) {
        // The test may have ended.
        let _: Result<(), _> = self.0.lock().unwrap().send(());
    }
}

/// A worker's thread, which ends with the test.
struct Running {
    stop: EventFd,
    thread: Option<JoinHandle<Result<(), WorkerError>>>,
}

impl Running {
    fn new(slots: Vec<Arc<MmioTransport>>) -> Self {
        let stop = EventFd::new(0).unwrap();
        let worker = Worker::new(slots, stop.try_clone().unwrap()).unwrap();
        Self { stop, thread: Some(thread::spawn(|| worker.run())) }
    }

    fn stop(mut self) {
        self.stop.write(1).unwrap();
        self.thread.take().unwrap().join().unwrap().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.write(1).unwrap();
    }
}

/// A console whose receiving queue is that of the driver.
fn console(input: Input) -> (Arc<MmioTransport>, TestDriver, Receiver<()>) {
    let (sender, interrupts) = channel();
    let driver = TestDriver::new(256);
    let device = Console::new(Output::new(Box::new(io::sink())), Some(input));
    let line = Box::new(Line(Mutex::new(sender)));
    let slot = Arc::new(MmioTransport::new(Box::new(device), driver.memory.clone(), line).unwrap());
    start(&slot, 1);
    (slot, driver, interrupts)
}

fn pipe() -> (File, PipeWriter) {
    let (reader, writer): (PipeReader, PipeWriter) = io::pipe().unwrap();
    (File::from(OwnedFd::from(reader)), writer)
}

/// Offers room until this much input has come, and returns it.
fn receive(
    slot: &MmioTransport,
    driver: &mut TestDriver,
    interrupts: &Receiver<()>,
    length: usize,
) -> Vec<u8> {
    let mut input = Vec::new();
    while input.len() < length {
        driver.send(&[(BUFFERS, 1000, true)]);
        write(slot, MmioTransport::QUEUE_NOTIFY, 0);
        interrupts.recv_timeout(LONG).unwrap();
        for (_, length) in driver.used() {
            input.extend(driver.bytes(BUFFERS, usize::try_from(length).unwrap()));
        }
    }
    input
}

/// The processor's time that this thread has taken, in steps of 10 ms.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/stat").unwrap_or_default();
    let fields: Vec<&str> = text.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let ticks: u64 = fields[11..13].iter().map(|ticks| ticks.parse::<u64>().unwrap()).sum();
    Duration::from_millis(10 * ticks)
}

#[test]
fn a_notification_is_served() {
    let (sender, interrupts) = channel();
    let mut driver = TestDriver::new(16);
    let line = Box::new(Line(Mutex::new(sender)));
    let slot =
        Arc::new(MmioTransport::new(Box::<EchoDevice>::default(), driver.memory.clone(), line).unwrap());
    let running = Running::new(vec![slot.clone()]);
    start(&slot, 1);
    // Much more than is served at once.
    for _ in 0..16 {
        driver.send(&[(BUFFERS, 0x4_0000, false)]);
    }
    driver.set_used_event(15);
    write(&slot, MmioTransport::QUEUE_NOTIFY, 0);
    interrupts.recv_timeout(LONG).unwrap();
    while driver.used().is_empty() {}
    running.stop();
}

#[test]
fn output_that_nobody_was_told_of_is_served_at_the_end() {
    let mut driver = TestDriver::new(8);
    let device = Box::<EchoDevice>::default();
    let slot = MmioTransport::new(device, driver.memory.clone(), Box::<InterruptCounter>::default()).unwrap();
    let slot = Arc::new(slot);
    start(&slot, 2);
    // Not even by the start.
    slot.take_kick(1);
    let running = Running::new(vec![slot]);
    for _ in 0..8 {
        driver.send(&[(BUFFERS, 0x4_0000, false)]);
    }
    running.stop();
    assert_eq!(driver.used().len(), 8);
}

#[test]
fn input_arrives_as_it_comes() {
    let (source, mut writer) = pipe();
    let (slot, mut driver, interrupts) = console(Input::quoted(source));
    let running = Running::new(vec![slot.clone()]);
    for text in ["one", "two", "three"] {
        driver.send(&[(BUFFERS, 1000, true)]);
        write(&slot, MmioTransport::QUEUE_NOTIFY, 0);
        writer.write_all(text.as_bytes()).unwrap();
        interrupts.recv_timeout(LONG).unwrap();
        let used = driver.used();
        assert_eq!(driver.bytes(BUFFERS, usize::try_from(used[0].1).unwrap()), text.as_bytes());
    }
    drop(writer);
    assert_eq!(receive(&slot, &mut driver, &interrupts, 1), [4]);
    running.stop();
}

#[test]
fn a_file_arrives_whole_and_so_does_its_end() {
    let mut file = tempfile::tempfile().unwrap();
    let content = [7; 50_000];
    file.write_all(&content).unwrap();
    io::Seek::rewind(&mut file).unwrap();
    let (slot, mut driver, interrupts) = console(Input::quoted(file));
    let running = Running::new(vec![slot.clone()]);
    let input = receive(&slot, &mut driver, &interrupts, content.len() + 1);
    assert_eq!(input, [&content[..], &[4]].concat());
    running.stop();
}

#[test]
fn an_empty_input_ends_at_once() {
    let (slot, mut driver, interrupts) = console(Input::quoted(File::open("/dev/null").unwrap()));
    let running = Running::new(vec![slot.clone()]);
    assert_eq!(receive(&slot, &mut driver, &interrupts, 1), [4]);
    running.stop();
}

/// Serves a console in this thread for a while, and says how much of the processor it took.
fn effort(slot: &Arc<MmioTransport>) -> Duration {
    let stop = EventFd::new(0).unwrap();
    let worker = Worker::new(vec![slot.clone()], stop.try_clone().unwrap()).unwrap();
    let before = processor_time();
    let stopper = thread::spawn(move || {
        thread::sleep(Duration::from_millis(400));
        stop.write(1).unwrap();
    });
    let begin = Instant::now();
    worker.run().unwrap();
    stopper.join().unwrap();
    assert!(begin.elapsed() >= Duration::from_millis(400));
    processor_time() - before
}

#[test]
fn the_worker_rests_where_there_is_nothing_to_do() {
    let most = Duration::from_millis(100);
    // Input at its end, and room for it.
    let (source, writer) = pipe();
    drop(writer);
    let (slot, mut driver, _interrupts) = console(Input::quoted(source));
    for _ in 0..4 {
        driver.send(&[(BUFFERS, 10, true)]);
    }
    assert!(effort(&slot) < most);
    assert_eq!(driver.used().len(), 1);
    // Input, but no room.
    let (source, mut writer) = pipe();
    writer.write_all(b"input").unwrap();
    let (slot, _driver, _interrupts) = console(Input::quoted(source));
    assert!(effort(&slot) < most);
    // A file without an end, and room for a little.
    let (slot, mut driver, _interrupts) = console(Input::quoted(File::open("/dev/zero").unwrap()));
    driver.send(&[(BUFFERS, 10, true)]);
    assert!(effort(&slot) < most);
    assert_eq!(driver.used().len(), 1);
}
