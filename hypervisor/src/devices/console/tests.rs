//! Tests of the console: its queues, its output and its input.

use std::fs::File;
use std::io::{self, ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::iter;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use hermit_interface::console::{END_OF_FILE, LITERAL_NEXT};
use proptest::collection::vec;
use proptest::prelude::*;
use rustix::io::ioctl_fionbio;
use virtio_queue::Queue;

use super::config::{MAX_TX_CHAIN, RECEIVEQ, TRANSMITQ, TX_CHUNK};
use super::{ConsoleDevice, ConsoleInput, Output, TextPort};
use crate::devices::virtio::test_utils::{
    BUFFERS, InterruptCounter, MEMORY, TestDriver, assert_rejects_malformed_queues, start,
};
use crate::devices::virtio::{
    DeviceError, EventValidity, Interest, MmioTransport, QueueProgress, QueueSink, VirtioDevice,
};

/// Stream that records each write.
#[derive(Clone, Debug, Default)]
struct TestStream {
    writes: Arc<Mutex<Vec<Vec<u8>>>>,
    /// Number of writes that succeed before all others fail.
    fails_after: Option<usize>,
    /// True if every second write fails with `EINTR` or `EAGAIN`, and the others take at most 3 bytes.
    is_slow: bool,
    attempts: usize,
}

impl Write for TestStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut writes = self.writes.lock().unwrap();
        if self.fails_after.is_some_and(|count| writes.len() >= count) {
            return Err(ErrorKind::BrokenPipe.into());
        }
        self.attempts += 1;
        match self.attempts % 4 {
            0 if self.is_slow => Err(ErrorKind::WouldBlock.into()),
            1 if self.is_slow => Err(ErrorKind::Interrupted.into()),
            _ => {
                let count = if self.is_slow { bytes.len().min(3) } else { bytes.len() };
                writes.push(bytes[..count].to_vec());
                Ok(count)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl TestStream {
    fn writes(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut *self.writes.lock().unwrap())
    }

    fn output(&self) -> Output {
        Output::new(Box::new(self.clone()))
    }
}

fn pipe() -> (File, PipeWriter) {
    let (reader, writer): (PipeReader, PipeWriter) = io::pipe().unwrap();
    (File::from(OwnedFd::from(reader)), writer)
}

/// Console without output.
fn silent(input: Option<ConsoleInput>) -> ConsoleDevice {
    ConsoleDevice::new(Output::new(Box::new(io::sink())), input)
}

/// A console and the driver of one of its queues.
struct Harness {
    console: ConsoleDevice,
    driver: TestDriver,
    queue: Queue,
}

impl Harness {
    fn new(console: ConsoleDevice) -> Self {
        let driver = TestDriver::new(16);
        let queue = driver.queue();
        Self { console, driver, queue }
    }

    fn process(&mut self, index: usize) -> Result<QueueProgress, DeviceError> {
        let mut result = Ok(QueueProgress::Done);
        let sink = self.console.sink(index);
        let mut process = || result = self.console.process(index, &mut self.queue, &self.driver.memory);
        match sink {
            Some(sink) => sink.write_after(&mut process),
            None => process(),
        }
        result
    }

    fn receive(&mut self) -> QueueProgress {
        self.process(RECEIVEQ).unwrap()
    }

    /// Contents of the used buffers. They all start at [`BUFFERS`].
    fn received(&mut self) -> Vec<Vec<u8>> {
        let used = self.driver.used();
        used.iter().map(|&(_, length)| self.driver.bytes(BUFFERS, usize::try_from(length).unwrap())).collect()
    }
}

#[test]
fn each_chain_of_output_is_one_write() {
    let stream = TestStream::default();
    let mut harness = Harness::new(ConsoleDevice::new(stream.output(), None));
    assert_eq!(harness.process(TRANSMITQ).unwrap(), QueueProgress::Done);
    let first = harness.driver.send_bytes(BUFFERS, b"hello ");
    harness.driver.send_bytes(BUFFERS + 64, b"world\n");
    let last = harness.driver.send(&[(BUFFERS, 2, false), (BUFFERS, 0, false), (BUFFERS + 64, 3, false)]);
    assert_eq!(harness.process(TRANSMITQ).unwrap(), QueueProgress::Done);
    assert_eq!(stream.writes(), [&b"hello "[..], b"world\n", b"hewor"]);
    let used = harness.driver.used();
    assert_eq!((used.len(), used[0], used[2]), (3, (first.into(), 0), (last.into(), 0)));
}

#[test]
fn long_output_is_written_in_chunks() {
    let stream = TestStream::default();
    let mut harness = Harness::new(ConsoleDevice::new(stream.output(), None));
    harness.driver.send(&[(BUFFERS, u32::try_from(TX_CHUNK + 1).unwrap(), false)]);
    harness.process(TRANSMITQ).unwrap();
    assert_eq!(stream.writes().iter().map(Vec::len).collect::<Vec<_>>(), [TX_CHUNK, 1]);
}

#[test]
fn output_above_the_maximum_length_is_rejected() {
    for (excess, is_valid) in [(0, true), (1, false)] {
        let mut harness = Harness::new(silent(None));
        harness
            .driver
            .send(&[(BUFFERS, u32::try_from(MAX_TX_CHAIN).unwrap(), false), (BUFFERS, excess, false)]);
        assert_eq!(harness.process(TRANSMITQ).is_ok(), is_valid);
    }
}

#[test]
fn transmitq_yields_at_the_work_limit() {
    let mut harness = Harness::new(silent(None));
    for _ in 0..3 {
        harness.driver.send(&[(BUFFERS, 0x4_0000, false)]);
    }
    assert_eq!(harness.process(TRANSMITQ).unwrap(), QueueProgress::Yielded);
    assert_eq!(harness.driver.used().len(), 1);
}

#[test]
fn buffers_of_the_wrong_direction_are_rejected() {
    let (source, mut writer) = pipe();
    writer.write_all(b"input").unwrap();
    let mut harness = Harness::new(silent(Some(ConsoleInput::raw(source))));
    harness.console.host_ready(RECEIVEQ, EventValidity::Once);
    harness.driver.send(&[(BUFFERS, 4, false), (BUFFERS, 4, true)]);
    assert!(matches!(harness.process(RECEIVEQ), Err(DeviceError::Direction)));
    let mut harness = Harness::new(silent(None));
    harness.driver.send(&[(BUFFERS, 4, false), (BUFFERS, 4, true)]);
    assert!(matches!(harness.process(TRANSMITQ), Err(DeviceError::Direction)));
}

#[test]
fn malformed_queues_are_rejected() {
    assert_rejects_malformed_queues(TRANSMITQ, || silent(None));
    assert_rejects_malformed_queues(RECEIVEQ, || {
        let mut console = silent(Some(ConsoleInput::raw(File::open("/dev/zero").unwrap())));
        console.host_ready(RECEIVEQ, EventValidity::Always);
        console
    });
}

#[test]
fn output_retries_interrupted_and_partial_writes() {
    let stream = TestStream { is_slow: true, ..TestStream::default() };
    stream.output().write(b"0123456789");
    assert_eq!(stream.writes().concat(), b"0123456789");
}

#[test]
fn output_after_an_error_is_dropped() {
    let stream = TestStream { fails_after: Some(1), ..TestStream::default() };
    let output = stream.output();
    let mut harness = Harness::new(ConsoleDevice::new(output.clone(), None));
    for bytes in [b"one", b"two"] {
        harness.driver.send_bytes(BUFFERS, bytes);
        assert_eq!(harness.process(TRANSMITQ).unwrap(), QueueProgress::Done);
    }
    assert_eq!(harness.driver.used().len(), 2);
    assert_eq!(output.failure(), Some(ErrorKind::BrokenPipe));
    assert_eq!(stream.writes(), [b"one"]);
    // No write is attempted, which would follow a gap.
    output.write(b"three");
    assert!(stream.writes().is_empty());
}

#[test]
fn text_port_drains_the_transmitq_first() {
    let (stream, mut driver) = (TestStream::default(), TestDriver::new(256));
    let console = Box::new(ConsoleDevice::new(stream.output(), None));
    let transport = Arc::new(
        MmioTransport::new(console, driver.memory.clone(), Box::<InterruptCounter>::default()).unwrap(),
    );
    let text = TextPort::new(vec![transport.clone()], stream.output());
    text.write(b"early ");
    start(&transport, 2);
    driver.send_bytes(BUFFERS, b"first ");
    driver.send_bytes(BUFFERS + 64, b"second ");
    text.write(b"text");
    assert_eq!(stream.writes().concat(), b"early first second text");
    assert_eq!(driver.used().len(), 2);
}

#[test]
fn text_is_taken_only_if_the_stream_has_room_and_no_other_writer() {
    let (mut reader, writer) = pipe();
    let file = File::from(OwnedFd::from(writer));
    let output = Output::file(file.try_clone().unwrap(), false);
    assert!(output.try_write(b"first"));
    let other_writer = output.clone();
    other_writer.write_after(&mut || assert!(!output.try_write(b"locked")));
    ioctl_fionbio(&file, true).unwrap();
    let written: usize = iter::from_fn(|| (&file).write(&[0; 4096]).ok()).sum();
    assert!(!output.try_write(b"full"));
    let mut read = vec![1; b"first".len() + written];
    reader.read_exact(&mut read).unwrap();
    assert!(read.starts_with(b"first\0") && read.ends_with(&[0]));
    assert!(output.try_write(b"last"));
    assert!(Output::new(Box::new(io::sink())).try_write(b"always"));
}

#[test]
fn buffers_without_input_are_not_used() {
    let mut harness = Harness::new(silent(None));
    assert_eq!(harness.receive(), QueueProgress::Done);
    harness.driver.send(&[(BUFFERS, 16, true)]);
    assert_eq!(harness.receive(), QueueProgress::Blocked);
    assert!(harness.driver.used().is_empty());
    assert_eq!(harness.console.host_event(RECEIVEQ), None);
}

#[test]
fn input_is_read_when_ready_and_a_buffer_is_available() {
    let (source, mut writer) = pipe();
    let mut harness = Harness::new(silent(Some(ConsoleInput::quoted(source))));
    assert_eq!(harness.console.host_event(RECEIVEQ).map(|event| event.interest), Some(Interest::Readable));
    writer.write_all(b"hello").unwrap();
    // No buffer: nothing is read.
    harness.console.host_ready(RECEIVEQ, EventValidity::Once);
    assert_eq!(harness.receive(), QueueProgress::Done);
    for _ in 0..3 {
        harness.driver.send(&[(BUFFERS, 3, true)]);
    }
    assert_eq!(harness.receive(), QueueProgress::Blocked);
    assert_eq!(harness.driver.used().iter().map(|used| used.1).collect::<Vec<_>>(), [3, 2]);
    // Not ready: a read might block.
    writer.write_all(b"!").unwrap();
    assert_eq!(harness.receive(), QueueProgress::Blocked);
    harness.console.host_ready(RECEIVEQ, EventValidity::Once);
    assert_eq!(harness.receive(), QueueProgress::Done);
    assert_eq!(harness.received(), [b"!"]);
}

#[test]
fn end_of_input_is_delivered_once() {
    let (source, writer) = pipe();
    drop(writer);
    let mut harness = Harness::new(silent(Some(ConsoleInput::quoted(source))));
    harness.console.host_ready(RECEIVEQ, EventValidity::Once);
    harness.driver.send(&[(BUFFERS, 16, true)]);
    assert_eq!(harness.receive(), QueueProgress::Done);
    assert_eq!(harness.received(), [[END_OF_FILE]]);
    assert_eq!(harness.console.host_event(RECEIVEQ), None);
    harness.driver.send(&[(BUFFERS, 16, true)]);
    harness.console.host_ready(RECEIVEQ, EventValidity::Once);
    assert_eq!(harness.receive(), QueueProgress::Blocked);
}

#[test]
fn end_of_raw_input_is_not_delivered() {
    let (source, writer) = pipe();
    drop(writer);
    let mut harness = Harness::new(silent(Some(ConsoleInput::raw(source))));
    harness.console.host_ready(RECEIVEQ, EventValidity::Once);
    harness.driver.send(&[(BUFFERS, 16, true)]);
    assert_eq!(harness.receive(), QueueProgress::Blocked);
    assert_eq!(harness.console.host_event(RECEIVEQ), None);
}

#[test]
fn read_error_ends_the_input() {
    // A directory can be opened, but not read.
    let mut harness = Harness::new(silent(Some(ConsoleInput::quoted(File::open("/").unwrap()))));
    harness.console.host_ready(RECEIVEQ, EventValidity::Always);
    harness.driver.send(&[(BUFFERS, 16, true)]);
    assert_eq!(harness.receive(), QueueProgress::Done);
    assert_eq!(harness.received(), [[END_OF_FILE]]);
}

#[test]
fn control_characters_are_quoted_unless_raw() {
    let input = b"a\x04b\x16c\rd";
    for (make, expected) in [
        (ConsoleInput::raw as fn(File) -> ConsoleInput, &input[..]),
        (
            ConsoleInput::quoted,
            &[b'a', LITERAL_NEXT, 4, b'b', LITERAL_NEXT, 0x16, b'c', LITERAL_NEXT, b'\r', b'd'],
        ),
    ] {
        let (source, mut writer) = pipe();
        writer.write_all(input).unwrap();
        let mut harness = Harness::new(silent(Some(make(source))));
        harness.console.host_ready(RECEIVEQ, EventValidity::Once);
        harness.driver.send(&[(BUFFERS, 64, true)]);
        harness.receive();
        assert_eq!(harness.received(), [expected]);
    }
}

#[test]
fn regular_file_is_read_to_its_end() {
    let mut file = tempfile::tempfile().unwrap();
    let content: Vec<u8> = (0..20_000_u32).map(|number| b"0123456789"[number as usize % 10]).collect();
    file.write_all(&content).unwrap();
    io::Seek::rewind(&mut file).unwrap();
    let mut harness = Harness::new(silent(Some(ConsoleInput::quoted(file))));
    harness.console.host_ready(RECEIVEQ, EventValidity::Always);
    let mut received = Vec::new();
    while harness.console.host_event(RECEIVEQ).is_some() {
        harness.driver.send(&[(BUFFERS, 700, true)]);
        assert_eq!(harness.receive(), QueueProgress::Done);
        received.extend(harness.received().concat());
    }
    assert_eq!(received.pop(), Some(END_OF_FILE));
    assert_eq!(received, content);
}

#[test]
fn empty_buffer_is_used_without_input() {
    let (source, mut writer) = pipe();
    writer.write_all(b"x").unwrap();
    let mut harness = Harness::new(silent(Some(ConsoleInput::raw(source))));
    harness.console.host_ready(RECEIVEQ, EventValidity::Once);
    harness.driver.send(&[(MEMORY, 0, true)]);
    harness.driver.send(&[(BUFFERS, 1, true)]);
    assert_eq!(harness.receive(), QueueProgress::Done);
    assert_eq!(harness.received(), [&b""[..], b"x"]);
}

#[test]
fn reset_keeps_pending_input() {
    let (source, mut writer) = pipe();
    writer.write_all(b"input").unwrap();
    let mut harness = Harness::new(silent(Some(ConsoleInput::raw(source))));
    harness.console.host_ready(RECEIVEQ, EventValidity::Once);
    harness.driver.send(&[(BUFFERS, 2, true)]);
    harness.receive();
    assert_eq!(harness.received(), [b"in"]);
    harness.console.reset();
    let mut harness = Harness::new(harness.console);
    harness.driver.send(&[(BUFFERS, 9, true)]);
    harness.receive();
    assert_eq!(harness.received(), [b"put"]);
}

proptest! {
    /// The unquoting of the guest's kernel restores the bytes.
    #[test]
    fn quoting_is_reversible(input in vec(prop_oneof![any::<u8>(), Just(4), Just(0x16), Just(13)], 0..600), size in 1u32..50) {
        let (source, mut writer) = pipe();
        writer.write_all(&input).unwrap();
        drop(writer);
        let mut harness = Harness::new(silent(Some(ConsoleInput::quoted(source))));
        let mut framed = Vec::new();
        while harness.console.host_event(RECEIVEQ).is_some() {
            harness.console.host_ready(RECEIVEQ, EventValidity::Once);
            for _ in 0..16 {
                harness.driver.send(&[(BUFFERS, size, true)]);
                harness.receive();
                framed.extend(harness.received().concat());
            }
            harness = Harness::new(harness.console);
        }
        prop_assert_eq!(framed.pop(), Some(END_OF_FILE));
        let mut bytes = framed.into_iter();
        let mut found = Vec::new();
        while let Some(byte) = bytes.next() {
            found.push(if byte == LITERAL_NEXT { bytes.next().unwrap() } else { byte });
        }
        prop_assert_eq!(found, input);
    }
}
