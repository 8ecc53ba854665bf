//! The console as objects: standard input and output, and standard error.
//!
//! The console is a stream of bytes, and has no echo and no line editing. Because such a stream cannot signal
//! its end, the host sends a control byte for end of file ([`END_OF_FILE`]). It quotes data bytes that have
//! the value of a control byte with [`LITERAL_NEXT`]. A carriage return reads as a newline. The state machine
//! in [`Console`] decodes the stream. If a read ends after [`LITERAL_NEXT`], the state machine remembers that
//! the next byte is quoted.

use core::fmt::Debug;
use core::sync::atomic::{AtomicU8, Ordering};
use core::task::{Context, Poll};

use hermit_interface::Errno;
use hermit_interface::console::{CARRIAGE_RETURN, END_OF_FILE, LITERAL_NEXT};

use crate::{Object, ReadBuffer, Readiness, Stat};

/// A device that takes output.
pub trait Sink: Debug + Send + Sync {
    /// Writes bytes unchanged. Waits until the device has taken all of them.
    fn write(&self, bytes: &[u8]);
}

/// The terminal device behind the console.
pub trait Terminal: Sink {
    /// Takes the next byte of the input, if one has arrived.
    fn read(&self) -> Option<u8>;

    /// Returns true if input has arrived.
    fn has_input(&self) -> bool;

    /// Calls `read` with the lock of the input held, so that reads do not interleave.
    fn with_input_lock(&self, read: &mut dyn FnMut());

    /// Registers the waker for the arrival of input.
    fn wake_on_input(&self, context: &mut Context<'_>);

    /// Registers the waker as [`Self::wake_on_input`] does, but does not call it for input that has already
    /// arrived.
    fn watch_input(&self, context: &Context<'_>);

    /// Removes the waker that [`Self::watch_input`] has registered.
    fn unwatch_input(&self, context: &Context<'_>);
}

/// Metadata of a character device that its owner may read and write.
const CHARACTER_DEVICE: Stat = Stat { mode: 0o02_0600, size: 0, block_size: 1024 };

/// State of the input: the meaning of the next byte.
mod state {
    /// The value of the byte decides if it is a control byte or data.
    pub(super) const PLAIN: u8 = 0;
    /// The byte is data, because it follows [`LITERAL_NEXT`](super::LITERAL_NEXT).
    pub(super) const LITERAL: u8 = 1;
    /// The input has ended. All further reads return end of file, like reads from a pipe without writers.
    pub(super) const ENDED: u8 = 2;
}

/// A console over a [`Terminal`], with the input conventions of [`hermit_interface::console`].
#[derive(Debug)]
pub struct Console<T> {
    terminal: T,
    state: AtomicU8,
}

impl<T: Terminal> Console<T> {
    /// Creates a console over a terminal.
    pub const fn new(terminal: T) -> Self {
        Self { terminal, state: AtomicU8::new(state::PLAIN) }
    }

    fn has_ended(&self) -> bool {
        self.state.load(Ordering::Relaxed) == state::ENDED
    }

    /// Reads the input that has arrived.
    fn read_available(&self, buffer: &mut ReadBuffer<'_>) {
        while buffer.room() > 0 && !self.has_ended() {
            let Some(byte) = self.terminal.read() else { break };
            let literal = self.state.load(Ordering::Relaxed) == state::LITERAL;
            self.state.store(state::PLAIN, Ordering::Relaxed);
            match byte {
                _ if literal => buffer.append(&[byte]),
                LITERAL_NEXT => {
                    self.state.store(state::LITERAL, Ordering::Relaxed);
                    continue;
                }
                END_OF_FILE => {
                    self.state.store(state::ENDED, Ordering::Relaxed);
                    break;
                }
                CARRIAGE_RETURN => buffer.append(b"\n"),
                _ => buffer.append(&[byte]),
            };
        }
    }
}

impl<T: Terminal + 'static> Object for Console<T> {
    fn poll_read(&self, context: &mut Context<'_>, buffer: &mut ReadBuffer<'_>) -> Poll<Result<(), Errno>> {
        self.terminal.with_input_lock(&mut || self.read_available(buffer));
        if buffer.room() == 0 || !buffer.is_empty() || self.has_ended() {
            return Poll::Ready(Ok(()));
        }
        self.terminal.wake_on_input(context);
        Poll::Pending
    }

    fn poll_write(&self, _context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize, Errno>> {
        self.terminal.write(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_ready(&self, context: &mut Context<'_>) -> Readiness {
        let mut read = self.has_ended() || self.terminal.has_input();
        if !read {
            self.terminal.wake_on_input(context);
            read = self.terminal.has_input();
        }
        Readiness { read, write: true, ..Readiness::default() }
    }

    fn is_watchable(&self) -> bool {
        true
    }

    fn watch(&self, context: &mut Context<'_>) -> Readiness {
        self.terminal.watch_input(context);
        let read = self.has_ended() || self.terminal.has_input();
        Readiness { read, write: true, ..Readiness::default() }
    }

    fn unwatch(&self, context: &Context<'_>) {
        self.terminal.unwatch_input(context);
    }

    fn stat(&self) -> Result<Stat, Errno> {
        Ok(CHARACTER_DEVICE)
    }
}

/// Standard error: an output stream over a [`Sink`]. Reading fails with `EBADF`, as from a pipe.
#[derive(Debug)]
pub struct ErrorStream<S>(S);

impl<S: Sink> ErrorStream<S> {
    /// Creates a stream over a device.
    pub const fn new(sink: S) -> Self {
        Self(sink)
    }
}

impl<S: Sink + 'static> Object for ErrorStream<S> {
    fn poll_write(&self, _context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize, Errno>> {
        self.0.write(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_ready(&self, _context: &mut Context<'_>) -> Readiness {
        Readiness { write: true, ..Readiness::default() }
    }

    fn is_watchable(&self) -> bool {
        true
    }

    fn stat(&self) -> Result<Stat, Errno> {
        Ok(CHARACTER_DEVICE)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::{Console, ErrorStream, Sink, Terminal};
    use crate::{Object, ReadBuffer};
    use core::mem::MaybeUninit;
    use core::task::{Context, Poll, Waker};
    use hermit_interface::Errno;
    use std::collections::VecDeque;
    use std::sync::Mutex;
    use std::vec::Vec;

    #[derive(Debug, Default)]
    struct FakeTerminal {
        input: Mutex<VecDeque<u8>>,
        output: Mutex<Vec<u8>>,
    }

    impl Sink for FakeTerminal {
        fn write(&self, bytes: &[u8]) {
            self.output.lock().unwrap().extend_from_slice(bytes);
        }
    }

    impl Terminal for FakeTerminal {
        fn read(&self) -> Option<u8> {
            self.input.lock().unwrap().pop_front()
        }

        fn with_input_lock(&self, read: &mut dyn FnMut()) {
            read();
        }

        fn has_input(&self) -> bool {
            !self.input.lock().unwrap().is_empty()
        }

        fn wake_on_input(&self, _context: &mut Context<'_>) {}

        fn watch_input(&self, _context: &Context<'_>) {}

        fn unwatch_input(&self, _context: &Context<'_>) {}
    }

    fn console(input: &[u8]) -> Console<FakeTerminal> {
        Console::new(FakeTerminal {
            input: Mutex::new(input.iter().copied().collect()),
            ..FakeTerminal::default()
        })
    }

    /// Reads up to `size` bytes; returns their number, or `None` if the read is pending.
    fn read(console: &Console<FakeTerminal>, size: usize) -> Option<usize> {
        let mut memory = std::vec![MaybeUninit::uninit(); size];
        let mut buffer = ReadBuffer::new(&mut memory);
        match console.poll_read(&mut Context::from_waker(Waker::noop()), &mut buffer) {
            Poll::Ready(result) => result.map(|()| buffer.len()).ok(),
            Poll::Pending => None,
        }
    }

    #[test]
    fn end_of_file_follows_the_last_bytes_and_stays() {
        let console = console(b"ab\x04c");
        assert_eq!(read(&console, 8), Some(2));
        assert_eq!(read(&console, 8), Some(0));
        assert_eq!(read(&console, 8), Some(0));
    }

    #[test]
    fn end_of_file_without_bytes_is_read_once_it_arrives() {
        let console = console(b"a");
        assert_eq!(read(&console, 8), Some(1));
        assert_eq!(read(&console, 8), None);
        console.terminal.input.lock().unwrap().push_back(4);
        assert_eq!(read(&console, 8), Some(0));
        assert_eq!(read(&console, 8), Some(0));
    }

    #[test]
    fn quoted_control_bytes_are_data() {
        let console = console(b"\x16\x04\x16\x16\x16\x0d");
        assert_eq!(read(&console, 8), Some(3));
        assert_eq!(read(&console, 8), None);
    }

    #[test]
    fn quote_at_the_end_of_a_read_applies_to_the_next_read() {
        let console = console(b"a\x16");
        assert_eq!(read(&console, 8), Some(1));
        assert_eq!(read(&console, 8), None);
        console.terminal.input.lock().unwrap().push_back(4);
        assert_eq!(read(&console, 8), Some(1));
    }

    #[test]
    fn read_into_an_empty_buffer_does_not_wait() {
        assert_eq!(read(&console(b""), 0), Some(0));
        assert_eq!(read(&console(b""), 1), None);
    }

    #[test]
    fn console_is_readable_with_input_and_at_end_of_file() {
        let ready =
            |console: &Console<FakeTerminal>| console.poll_ready(&mut Context::from_waker(Waker::noop()));
        let console = console(b"");
        assert!(!ready(&console).read && ready(&console).write);
        console.terminal.input.lock().unwrap().push_back(4);
        assert!(ready(&console).read);
        assert_eq!(read(&console, 8), Some(0));
        assert!(ready(&console).read);
    }

    #[test]
    fn output_is_unchanged() {
        let console = console(b"");
        let written = console.poll_write(&mut Context::from_waker(Waker::noop()), b"a\nb\x04");
        assert_eq!(written, Poll::Ready(Ok(4)));
        assert_eq!(*console.terminal.output.lock().unwrap(), b"a\nb\x04");
    }

    #[test]
    fn error_stream_takes_output_only() {
        let stream = ErrorStream::new(FakeTerminal::default());
        let context = &mut Context::from_waker(Waker::noop());
        assert_eq!(stream.poll_write(context, b"a\x04"), Poll::Ready(Ok(2)));
        assert_eq!(*stream.0.output.lock().unwrap(), b"a\x04");
        let ready = stream.poll_ready(context);
        assert!(ready.write && !ready.read);
        let mut memory = [MaybeUninit::uninit(); 8];
        let read = stream.poll_read(context, &mut ReadBuffer::new(&mut memory));
        assert_eq!(read, Poll::Ready(Err(Errno::EBADF)));
        assert_eq!(stream.stat(), console(b"").stat());
    }
}
