//! Tests of the console: its queues, its output and its input.

use std::fs::File;
use std::io::{self, ErrorKind, PipeReader, PipeWriter, Write};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use hermit_interface::console::{END_OF_FILE, LITERAL_NEXT};
use proptest::collection::vec;
use proptest::prelude::*;
use virtio_queue::Queue;

use super::config::{MAX_TX_CHAIN, RECEIVEQ, TRANSMITQ, TX_CHUNK};
use super::{Console, Input, Output, TextPort};
use crate::devices::virtio::test_utils::{
    BUFFERS, InterruptCounter, MEMORY, TestDriver, assert_refuses_hostile_chains, start,
};
use crate::devices::virtio::{DeviceError, Interest, MmioTransport, Progress, Readiness, VirtioDevice};

/// Remembers each write; fails from the given one on.
#[derive(Clone, Debug, Default)]
struct Stream {
    writes: Arc<Mutex<Vec<Vec<u8>>>>,
    fails_after: Option<usize>,
    /// Takes no more than this at once, and nothing every other time.
    is_slow: bool,
    turn: usize,
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut writes = self.writes.lock().unwrap();
        if self.fails_after.is_some_and(|count| writes.len() >= count) {
            return Err(ErrorKind::BrokenPipe.into());
        }
        self.turn += 1;
        match self.turn % 4 {
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

impl Stream {
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

fn silent(input: Option<Input>) -> Console {
    Console::new(Output::new(Box::new(io::sink())), input)
}

/// Two queues need two drivers: this is one queue, as the test needs it.
struct Harness {
    console: Console,
    driver: TestDriver,
    queue: Queue,
}

impl Harness {
    fn new(console: Console) -> Self {
        let driver = TestDriver::new(16);
        let queue = driver.queue();
        Self { console, driver, queue }
    }

    fn process(&mut self, index: usize) -> Result<Progress, DeviceError> {
        self.console.process(index, &mut self.queue, &self.driver.memory)
    }

    fn receive(&mut self) -> Progress {
        self.process(RECEIVEQ).unwrap()
    }

    /// What the device has put into buffers that all begin at [`BUFFERS`].
    fn received(&mut self) -> Vec<Vec<u8>> {
        let used = self.driver.used();
        used.iter().map(|&(_, length)| self.driver.bytes(BUFFERS, usize::try_from(length).unwrap())).collect()
    }
}

#[test]
fn output_is_written_chain_by_chain() {
    let stream = Stream::default();
    let mut rig = Harness::new(Console::new(stream.output(), None));
    assert_eq!(rig.process(TRANSMITQ).unwrap(), Progress::Done);
    let first = rig.driver.send_bytes(BUFFERS, b"hello ");
    rig.driver.send_bytes(BUFFERS + 64, b"world\n");
    let last = rig.driver.send(&[(BUFFERS, 2, false), (BUFFERS, 0, false), (BUFFERS + 64, 3, false)]);
    assert_eq!(rig.process(TRANSMITQ).unwrap(), Progress::Done);
    assert_eq!(stream.writes(), [&b"hello "[..], b"world\n", b"hewor"]);
    let used = rig.driver.used();
    assert_eq!((used.len(), used[0], used[2]), (3, (first.into(), 0), (last.into(), 0)));
}

#[test]
fn long_output_is_written_in_pieces() {
    let stream = Stream::default();
    let mut rig = Harness::new(Console::new(stream.output(), None));
    rig.driver.send(&[(BUFFERS, u32::try_from(TX_CHUNK + 1).unwrap(), false)]);
    rig.process(TRANSMITQ).unwrap();
    assert_eq!(stream.writes().iter().map(Vec::len).collect::<Vec<_>>(), [TX_CHUNK, 1]);
}

#[test]
fn output_of_excessive_length_is_refused() {
    for (excess, is_good) in [(0, true), (1, false)] {
        let mut rig = Harness::new(silent(None));
        rig.driver.send(&[(BUFFERS, u32::try_from(MAX_TX_CHAIN).unwrap(), false), (BUFFERS, excess, false)]);
        assert_eq!(rig.process(TRANSMITQ).is_ok(), is_good);
    }
}

#[test]
fn output_takes_turns() {
    let mut rig = Harness::new(silent(None));
    for _ in 0..3 {
        rig.driver.send(&[(BUFFERS, 0x4_0000, false)]);
    }
    assert_eq!(rig.process(TRANSMITQ).unwrap(), Progress::Yielded);
    assert_eq!(rig.driver.used().len(), 1);
}

#[test]
fn buffers_of_the_wrong_direction_are_refused() {
    let (source, mut writer) = pipe();
    writer.write_all(b"input").unwrap();
    let mut rig = Harness::new(silent(Some(Input::raw(source))));
    rig.console.host_ready(RECEIVEQ, Readiness::Once);
    rig.driver.send(&[(BUFFERS, 4, false), (BUFFERS, 4, true)]);
    assert!(matches!(rig.process(RECEIVEQ), Err(DeviceError::Direction)));
    let mut rig = Harness::new(silent(None));
    rig.driver.send(&[(BUFFERS, 4, false), (BUFFERS, 4, true)]);
    assert!(matches!(rig.process(TRANSMITQ), Err(DeviceError::Direction)));
}

#[test]
fn hostile_chains_are_refused_by_both_queues() {
    assert_refuses_hostile_chains(TRANSMITQ, || silent(None));
    assert_refuses_hostile_chains(RECEIVEQ, || {
        let mut console = silent(Some(Input::raw(File::open("/dev/zero").unwrap())));
        console.host_ready(RECEIVEQ, Readiness::Always);
        console
    });
}

#[test]
fn a_stream_that_is_slow_gets_everything() {
    let stream = Stream { is_slow: true, ..Stream::default() };
    stream.output().write(b"0123456789");
    assert_eq!(stream.writes().concat(), b"0123456789");
}

#[test]
fn a_closed_stream_is_remembered_and_left_alone() {
    let stream = Stream { fails_after: Some(1), ..Stream::default() };
    let output = stream.output();
    let mut rig = Harness::new(Console::new(output.clone(), None));
    for bytes in [b"one", b"two"] {
        rig.driver.send_bytes(BUFFERS, bytes);
        assert_eq!(rig.process(TRANSMITQ).unwrap(), Progress::Done);
    }
    assert_eq!(rig.driver.used().len(), 2);
    assert_eq!(output.failure(), Some(ErrorKind::BrokenPipe));
    assert_eq!(stream.writes(), [b"one"]);
    // It would take something again, but there would be a hole.
    output.write(b"three");
    assert!(stream.writes().is_empty());
}

#[test]
fn text_comes_after_what_was_sent_before() {
    let (stream, mut driver) = (Stream::default(), TestDriver::new(256));
    let console = Box::new(Console::new(stream.output(), None));
    let slot = Arc::new(
        MmioTransport::new(console, driver.memory.clone(), Box::<InterruptCounter>::default()).unwrap(),
    );
    let text = TextPort::new(slot.clone(), stream.output());
    text.write(b"early ");
    start(&slot, 2);
    driver.send_bytes(BUFFERS, b"first ");
    driver.send_bytes(BUFFERS + 64, b"second ");
    text.write(b"text");
    assert_eq!(stream.writes().concat(), b"early first second text");
    assert_eq!(driver.used().len(), 2);
}

#[test]
fn without_input_buffers_stay_with_the_device() {
    let mut rig = Harness::new(silent(None));
    assert_eq!(rig.receive(), Progress::Done);
    rig.driver.send(&[(BUFFERS, 16, true)]);
    assert_eq!(rig.receive(), Progress::Blocked);
    assert!(rig.driver.used().is_empty());
    assert_eq!(rig.console.host_event(RECEIVEQ), None);
}

#[test]
fn input_is_read_when_there_is_some_and_room_for_it() {
    let (source, mut writer) = pipe();
    let mut rig = Harness::new(silent(Some(Input::quoted(source))));
    assert_eq!(rig.console.host_event(RECEIVEQ).map(|event| event.interest), Some(Interest::Readable));
    writer.write_all(b"hello").unwrap();
    // No room: nothing is read, although there is something.
    rig.console.host_ready(RECEIVEQ, Readiness::Once);
    assert_eq!(rig.receive(), Progress::Done);
    for _ in 0..3 {
        rig.driver.send(&[(BUFFERS, 3, true)]);
    }
    assert_eq!(rig.receive(), Progress::Blocked);
    assert_eq!(rig.driver.used().iter().map(|used| used.1).collect::<Vec<_>>(), [3, 2]);
    // Not ready: it would block.
    writer.write_all(b"!").unwrap();
    assert_eq!(rig.receive(), Progress::Blocked);
    rig.console.host_ready(RECEIVEQ, Readiness::Once);
    assert_eq!(rig.receive(), Progress::Done);
    assert_eq!(rig.received(), [b"!"]);
}

#[test]
fn the_end_of_input_is_said_once() {
    let (source, writer) = pipe();
    drop(writer);
    let mut rig = Harness::new(silent(Some(Input::quoted(source))));
    rig.console.host_ready(RECEIVEQ, Readiness::Once);
    rig.driver.send(&[(BUFFERS, 16, true)]);
    assert_eq!(rig.receive(), Progress::Done);
    assert_eq!(rig.received(), [[END_OF_FILE]]);
    assert_eq!(rig.console.host_event(RECEIVEQ), None);
    rig.driver.send(&[(BUFFERS, 16, true)]);
    rig.console.host_ready(RECEIVEQ, Readiness::Once);
    assert_eq!(rig.receive(), Progress::Blocked);
}

#[test]
fn a_terminal_that_hangs_up_says_nothing() {
    let (source, writer) = pipe();
    drop(writer);
    let mut rig = Harness::new(silent(Some(Input::raw(source))));
    rig.console.host_ready(RECEIVEQ, Readiness::Once);
    rig.driver.send(&[(BUFFERS, 16, true)]);
    assert_eq!(rig.receive(), Progress::Blocked);
    assert_eq!(rig.console.host_event(RECEIVEQ), None);
}

#[test]
fn input_that_cannot_be_read_has_ended() {
    // A folder can be opened, but not read.
    let mut rig = Harness::new(silent(Some(Input::quoted(File::open("/").unwrap()))));
    rig.console.host_ready(RECEIVEQ, Readiness::Always);
    rig.driver.send(&[(BUFFERS, 16, true)]);
    assert_eq!(rig.receive(), Progress::Done);
    assert_eq!(rig.received(), [[END_OF_FILE]]);
}

#[test]
fn bytes_that_mean_something_are_quoted_unless_typed() {
    let typed = b"a\x04b\x16c\rd";
    for (make, expected) in [
        (Input::raw as fn(File) -> Input, &typed[..]),
        (Input::quoted, &[b'a', LITERAL_NEXT, 4, b'b', LITERAL_NEXT, 0x16, b'c', LITERAL_NEXT, b'\r', b'd']),
    ] {
        let (source, mut writer) = pipe();
        writer.write_all(typed).unwrap();
        let mut rig = Harness::new(silent(Some(make(source))));
        rig.console.host_ready(RECEIVEQ, Readiness::Once);
        rig.driver.send(&[(BUFFERS, 64, true)]);
        rig.receive();
        assert_eq!(rig.received(), [expected]);
    }
}

#[test]
fn a_file_that_never_blocks_is_read_to_its_end() {
    let mut file = tempfile::tempfile().unwrap();
    let content: Vec<u8> = (0..20_000_u32).map(|number| b"0123456789"[number as usize % 10]).collect();
    file.write_all(&content).unwrap();
    io::Seek::rewind(&mut file).unwrap();
    let mut rig = Harness::new(silent(Some(Input::quoted(file))));
    rig.console.host_ready(RECEIVEQ, Readiness::Always);
    let mut received = Vec::new();
    while rig.console.host_event(RECEIVEQ).is_some() {
        rig.driver.send(&[(BUFFERS, 700, true)]);
        assert_eq!(rig.receive(), Progress::Done);
        received.extend(rig.received().concat());
    }
    assert_eq!(received.pop(), Some(END_OF_FILE));
    assert_eq!(received, content);
}

#[test]
fn room_of_no_bytes_is_given_back() {
    let (source, mut writer) = pipe();
    writer.write_all(b"x").unwrap();
    let mut rig = Harness::new(silent(Some(Input::raw(source))));
    rig.console.host_ready(RECEIVEQ, Readiness::Once);
    rig.driver.send(&[(MEMORY, 0, true)]);
    rig.driver.send(&[(BUFFERS, 1, true)]);
    assert_eq!(rig.receive(), Progress::Done);
    assert_eq!(rig.received(), [&b""[..], b"x"]);
}

#[test]
fn a_reset_loses_no_input() {
    let (source, mut writer) = pipe();
    writer.write_all(b"input").unwrap();
    let mut rig = Harness::new(silent(Some(Input::raw(source))));
    rig.console.host_ready(RECEIVEQ, Readiness::Once);
    rig.driver.send(&[(BUFFERS, 2, true)]);
    rig.receive();
    assert_eq!(rig.received(), [b"in"]);
    rig.console.reset();
    let mut rig = Harness::new(rig.console);
    rig.driver.send(&[(BUFFERS, 9, true)]);
    rig.receive();
    assert_eq!(rig.received(), [b"put"]);
}

proptest! {
    /// What the kernel's console does with the framing gives the bytes back.
    #[test]
    fn framing_can_be_undone(input in vec(prop_oneof![any::<u8>(), Just(4), Just(0x16), Just(13)], 0..600), room in 1u32..50) {
        let (source, mut writer) = pipe();
        writer.write_all(&input).unwrap();
        drop(writer);
        let mut rig = Harness::new(silent(Some(Input::quoted(source))));
        let mut framed = Vec::new();
        while rig.console.host_event(RECEIVEQ).is_some() {
            rig.console.host_ready(RECEIVEQ, Readiness::Once);
            for _ in 0..16 {
                rig.driver.send(&[(BUFFERS, room, true)]);
                rig.receive();
                framed.extend(rig.received().concat());
            }
            rig = Harness::new(rig.console);
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
