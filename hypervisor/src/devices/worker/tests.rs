//! Tests of the worker in a thread, with file descriptors of the host.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hermit_options::rate::RateLimits;
use vmm_sys_util::eventfd::EventFd;

use super::{Worker, WorkerError, all_queues};
use crate::devices::block::Block;
use crate::devices::console::{ConsoleDevice, ConsoleInput, Output};
use crate::devices::rate_limiter::RateLimiter;
use crate::devices::rate_limiter::tests::simulated;
use crate::devices::virtio::test_utils::{BUFFERS, EchoDevice, InterruptCounter, TestDriver, start, write};
use crate::devices::virtio::{Interrupt, MmioTransport, QueueProgress};

/// Limit of the wait for an interrupt.
const INTERRUPT_TIMEOUT: Duration = Duration::from_secs(150);

/// Interrupt line that sends a message for each interrupt.
#[derive(Debug)]
struct TestInterrupt(Mutex<Sender<()>>);

impl Interrupt for TestInterrupt {
    fn raise(&self) {
        // Fails once the test has dropped the receiver.
        let _: Result<(), _> = self.0.lock().unwrap().send(());
    }
}

/// A worker in a thread, stopped when dropped.
struct WorkerThread {
    stop: EventFd,
    thread: Option<JoinHandle<Result<(), WorkerError>>>,
}

impl WorkerThread {
    fn new(queues: Vec<(Arc<MmioTransport>, usize)>) -> Self {
        let stop = EventFd::new(0).unwrap();
        let worker = Worker::new(queues, stop.try_clone().unwrap()).unwrap();
        Self { stop, thread: Some(thread::spawn(|| worker.run())) }
    }

    fn stop(mut self) {
        self.stop.write(1).unwrap();
        self.thread.take().unwrap().join().unwrap().unwrap();
    }
}

impl Drop for WorkerThread {
    fn drop(&mut self) {
        self.stop.write(1).unwrap();
    }
}

/// A console without output, and the driver of its `receiveq`.
fn console(input: ConsoleInput) -> (Arc<MmioTransport>, TestDriver, Receiver<()>) {
    console_with(input, Box::new(io::sink()), 1)
}

/// A console, and the driver of the last of its first `queues` queues.
fn console_with(
    input: ConsoleInput,
    output: Box<dyn Write + Send>,
    queues: u32,
) -> (Arc<MmioTransport>, TestDriver, Receiver<()>) {
    let (sender, interrupts) = channel();
    let driver = TestDriver::new(256);
    let device = ConsoleDevice::new(Output::new(output), Some(input));
    let line = Box::new(TestInterrupt(Mutex::new(sender)));
    let device = Arc::new(MmioTransport::new(Box::new(device), driver.memory.clone(), line).unwrap());
    start(&device, queues);
    (device, driver, interrupts)
}

fn pipe() -> (File, PipeWriter) {
    let (reader, writer): (PipeReader, PipeWriter) = io::pipe().unwrap();
    (File::from(OwnedFd::from(reader)), writer)
}

/// Makes buffers available until `length` bytes of input have arrived, and returns them.
fn receive(
    device: &MmioTransport,
    driver: &mut TestDriver,
    interrupts: &Receiver<()>,
    length: usize,
) -> Vec<u8> {
    let mut input = Vec::new();
    while input.len() < length {
        driver.send(&[(BUFFERS, 1000, true)]);
        write(device, MmioTransport::QUEUE_NOTIFY, 0);
        interrupts.recv_timeout(INTERRUPT_TIMEOUT).unwrap();
        for (_, length) in driver.used() {
            input.extend(driver.bytes(BUFFERS, usize::try_from(length).unwrap()));
        }
    }
    input
}

/// CPU time that this thread has consumed, in ticks of 10 ms.
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/stat").unwrap_or_default();
    let fields: Vec<&str> = text.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let ticks: u64 = fields[11..13].iter().map(|ticks| ticks.parse::<u64>().unwrap()).sum();
    Duration::from_millis(10 * ticks)
}

#[test]
fn end_of_escaped_output_is_written_when_the_worker_stops() {
    let (mut reader, writer) = io::pipe().unwrap();
    let (sender, _interrupts) = channel();
    let mut driver = TestDriver::new(256);
    let console = ConsoleDevice::new(Output::escaped(Box::new(writer)), None);
    let line = Box::new(TestInterrupt(Mutex::new(sender)));
    let device = Arc::new(MmioTransport::new(Box::new(console), driver.memory.clone(), line).unwrap());
    start(&device, 2);
    driver.send_bytes(BUFFERS, b"\x1b[31mred\x1b");
    WorkerThread::new(all_queues(&device).collect()).stop();
    drop(device);
    let mut output = Vec::new();
    reader.read_to_end(&mut output).unwrap();
    assert_eq!(output.escape_ascii().to_string(), "\\x1b[31mred^[\\x1b[m");
}

#[test]
fn notification_is_processed_in_rounds_to_the_end() {
    let (sender, interrupts) = channel();
    let mut driver = TestDriver::new(16);
    let line = Box::new(TestInterrupt(Mutex::new(sender)));
    let device =
        Arc::new(MmioTransport::new(Box::<EchoDevice>::default(), driver.memory.clone(), line).unwrap());
    let worker = WorkerThread::new(all_queues(&device).collect());
    start(&device, 1);
    // Many times the work limit.
    for _ in 0..16 {
        driver.send(&[(BUFFERS, 0x4_0000, false)]);
    }
    driver.set_used_event(15);
    write(&device, MmioTransport::QUEUE_NOTIFY, 0);
    interrupts.recv_timeout(INTERRUPT_TIMEOUT).unwrap();
    while driver.used().is_empty() {}
    worker.stop();
}

/// With a clock that stands still, a disk blocks after its first request, and executes the others at once
/// when the worker stops. With a running clock, the timer expires, and all requests are executed without
/// another notification.
#[test]
fn limited_queue_waits_for_its_timer_and_not_at_the_end() {
    for (rate, is_drained) in [("1/1", true), ("1000/1", false)] {
        let (sender, interrupts) = channel();
        let mut driver = TestDriver::new(16);
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        let mut limits = RateLimits::default();
        limits.set_operations(rate).unwrap();
        let limiter = if is_drained { simulated("", rate).0 } else { RateLimiter::new(limits).unwrap() };
        let disk = Block::new(file, false).unwrap().with_limiter(limiter);
        let line = Box::new(TestInterrupt(Mutex::new(sender)));
        let device = MmioTransport::new(Box::new(disk), driver.memory.clone(), line).unwrap();
        let device = Arc::new(device);
        start(&device, 1);
        // Reads of sector 0: the header is zero.
        for _ in 0..5 {
            driver.send(&[(BUFFERS, 16, false), (BUFFERS + 512, 512, true), (BUFFERS + 1024, 1, true)]);
        }
        driver.set_used_event(if is_drained { 0 } else { 4 });
        let worker = WorkerThread::new(all_queues(&device).collect());
        write(&device, MmioTransport::QUEUE_NOTIFY, 0);
        interrupts.recv_timeout(INTERRUPT_TIMEOUT).unwrap();
        if is_drained {
            assert_eq!(driver.used().len(), 1);
        }
        worker.stop();
        assert_eq!(driver.used().len(), if is_drained { 4 } else { 5 });
    }
}

#[test]
fn stop_drains_output_without_a_notification() {
    let mut driver = TestDriver::new(8);
    let device = Box::<EchoDevice>::default();
    let device =
        MmioTransport::new(device, driver.memory.clone(), Box::<InterruptCounter>::default()).unwrap();
    let device = Arc::new(device);
    start(&device, 2);
    // Clears the kick of DRIVER_OK.
    device.take_kick(1);
    let worker = WorkerThread::new(all_queues(&device).collect());
    for _ in 0..8 {
        driver.send(&[(BUFFERS, 0x4_0000, false)]);
    }
    worker.stop();
    assert_eq!(driver.used().len(), 8);
}

#[test]
fn input_of_a_pipe_arrives_as_it_is_written() {
    let (source, mut writer) = pipe();
    let (device, mut driver, interrupts) = console(ConsoleInput::quoted(source));
    let worker = WorkerThread::new(all_queues(&device).collect());
    for text in ["one", "two", "three"] {
        driver.send(&[(BUFFERS, 1000, true)]);
        write(&device, MmioTransport::QUEUE_NOTIFY, 0);
        writer.write_all(text.as_bytes()).unwrap();
        interrupts.recv_timeout(INTERRUPT_TIMEOUT).unwrap();
        let used = driver.used();
        assert_eq!(driver.bytes(BUFFERS, usize::try_from(used[0].1).unwrap()), text.as_bytes());
    }
    drop(writer);
    assert_eq!(receive(&device, &mut driver, &interrupts, 1), [4]);
    worker.stop();
}

#[test]
fn input_of_a_file_arrives_whole_with_its_end() {
    let mut file = tempfile::tempfile().unwrap();
    let content = [7; 50_000];
    file.write_all(&content).unwrap();
    io::Seek::rewind(&mut file).unwrap();
    let (device, mut driver, interrupts) = console(ConsoleInput::quoted(file));
    let worker = WorkerThread::new(all_queues(&device).collect());
    let input = receive(&device, &mut driver, &interrupts, content.len() + 1);
    assert_eq!(input, [&content[..], &[4]].concat());
    worker.stop();
}

#[test]
fn empty_input_ends_immediately() {
    let (device, mut driver, interrupts) = console(ConsoleInput::quoted(File::open("/dev/null").unwrap()));
    let worker = WorkerThread::new(all_queues(&device).collect());
    assert_eq!(receive(&device, &mut driver, &interrupts, 1), [4]);
    worker.stop();
}

/// Returns true if, in the best of three runs, a worker consumes CPU time only for its start. A worker that
/// does not wait would consume all CPU time that it gets, up to four times as much.
fn is_idle(device: &Arc<MmioTransport>) -> bool {
    (0..3).any(|_| cpu_time_of_worker(device) < Duration::from_millis(100))
}

/// Runs a worker in this thread for 400 ms, and returns the CPU time that it has consumed.
fn cpu_time_of_worker(device: &Arc<MmioTransport>) -> Duration {
    let stop = EventFd::new(0).unwrap();
    let worker = Worker::new(all_queues(device).collect(), stop.try_clone().unwrap()).unwrap();
    let (before, begin) = (cpu_time(), Instant::now());
    let stopper = thread::spawn(move || {
        thread::sleep(Duration::from_millis(400));
        stop.write(1).unwrap();
    });
    worker.run().unwrap();
    stopper.join().unwrap();
    assert!(begin.elapsed() >= Duration::from_millis(400));
    cpu_time() - before
}

#[test]
fn idle_worker_consumes_no_cpu_time() {
    // Input at its end, with buffers available.
    let (source, writer) = pipe();
    drop(writer);
    let (device, mut driver, _interrupts) = console(ConsoleInput::quoted(source));
    for _ in 0..4 {
        driver.send(&[(BUFFERS, 10, true)]);
    }
    assert!(is_idle(&device));
    assert_eq!(driver.used().len(), 1);
    // Input, but no buffer.
    let (source, mut writer) = pipe();
    writer.write_all(b"input").unwrap();
    let (device, _driver, _interrupts) = console(ConsoleInput::quoted(source));
    assert!(is_idle(&device));
    // A file without an end, and one small buffer.
    let (device, mut driver, _interrupts) = console(ConsoleInput::quoted(File::open("/dev/zero").unwrap()));
    driver.send(&[(BUFFERS, 10, true)]);
    assert!(is_idle(&device));
    assert_eq!(driver.used().len(), 1);
}

/// Stream whose reader has stalled: a write blocks until the test drops the sender of `reader`.
struct StalledStream {
    writing: Sender<()>,
    reader: Receiver<()>,
}

impl Write for StalledStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writing.send(()).unwrap();
        let _: Result<(), _> = self.reader.recv();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn stalled_output_leaves_the_other_queue_and_registers_usable() {
    let (writing, is_writing) = channel();
    let (stalled, reader) = channel::<()>();
    let (source, _writer) = pipe();
    let output = Box::new(StalledStream { writing, reader });
    let (device, mut driver, _interrupts) = console_with(ConsoleInput::raw(source), output, 2);
    let worker = WorkerThread::new(vec![(Arc::clone(&device), 1)]);
    driver.send_bytes(BUFFERS, b"output");
    write(&device, MmioTransport::QUEUE_NOTIFY, 1);
    is_writing.recv_timeout(INTERRUPT_TIMEOUT).unwrap();
    let (done, is_done) = channel();
    thread::spawn(move || done.send((device.handle_queue(0), device.host_event(0))).unwrap());
    let (progress, event) = is_done.recv_timeout(INTERRUPT_TIMEOUT).unwrap();
    assert_eq!(progress, QueueProgress::Done);
    assert!(event.is_some());
    drop(stalled);
    worker.stop();
}
