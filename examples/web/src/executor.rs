//! An executor for the future of one connection: polls it when its stream is ready or its waker was called.

use std::io::{self, ErrorKind};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use std::time::Duration;

use mio::net::TcpStream;
use mio::{Events, Interest, Token};

const STREAM: Token = Token(0);
const WAKER: Token = Token(1);

/// Wakes the thread that polls the future.
#[derive(Debug)]
struct Waker(mio::Waker);

impl Wake for Waker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if let Err(error) = self.0.wake() {
            eprintln!("a connection cannot be woken: {error}");
        }
    }
}

/// Executor of a thread, for one stream after the other.
#[derive(Debug)]
pub(crate) struct Executor {
    poll: mio::Poll,
    events: Events,
    waker: Arc<Waker>,
}

impl Executor {
    pub(crate) fn new() -> io::Result<Self> {
        let poll = mio::Poll::new()?;
        let waker = Arc::new(Waker(mio::Waker::new(poll.registry(), WAKER)?));
        Ok(Self { poll, events: Events::with_capacity(8), waker })
    }

    /// Registers a stream, whose readiness wakes the future.
    pub(crate) fn register(&self, stream: &mut TcpStream) -> io::Result<()> {
        self.poll.registry().register(stream, STREAM, Interest::READABLE | Interest::WRITABLE)
    }

    /// Deregisters a stream.
    pub(crate) fn deregister(&self, stream: &mut TcpStream) -> io::Result<()> {
        self.poll.registry().deregister(stream)
    }

    /// Polls a future until it completes.
    ///
    /// # Errors
    ///
    /// Returns `TimedOut` if neither stream nor waker wakes the future for `idle_timeout`, or the error of the
    /// poll.
    pub(crate) fn block_on<T>(
        &mut self,
        future: impl Future<Output = T>,
        idle_timeout: Duration,
    ) -> io::Result<T> {
        let waker = Arc::clone(&self.waker).into();
        let mut context = Context::from_waker(&waker);
        let mut future = pin!(future);
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return Ok(output);
            }
            match self.poll.poll(&mut self.events, Some(idle_timeout)) {
                Ok(()) if self.events.is_empty() => return Err(ErrorKind::TimedOut.into()),
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, poll_fn};
    use std::io::ErrorKind;
    use std::task::Poll;
    use std::thread;
    use std::time::Duration;

    use super::Executor;

    #[test]
    fn waker_wakes_executor() {
        let mut polls = 0;
        let future = poll_fn(|context| {
            polls += 1;
            match polls {
                1 => context.waker().wake_by_ref(),
                2 => {
                    let waker = context.waker().clone();
                    thread::spawn(move || waker.wake());
                }
                _ => return Poll::Ready("done"),
            }
            Poll::Pending
        });
        assert_eq!(Executor::new().unwrap().block_on(future, Duration::from_secs(20)).unwrap(), "done");
    }

    #[test]
    fn idle_future_times_out() {
        let result = Executor::new().unwrap().block_on(pending::<()>(), Duration::from_millis(20));
        assert_eq!(result.unwrap_err().kind(), ErrorKind::TimedOut);
    }
}
