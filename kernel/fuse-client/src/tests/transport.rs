//! A transport whose replies arrive late. At first, it has no room for every third request.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::{self, Debug, Formatter};
use core::num::NonZeroU64;
use core::task::{Context, Poll};
use std::collections::HashMap;

use hermit_fuse::{MAX_HEAD, MAX_REPLY_HEAD, Request, Tag};
use hermit_interface::Errno;
use parking_lot::Mutex;

use crate::transport::{ServedReply, Transport};

/// Maximum size in bytes of the data of a request, unless a test sets another one: small, so that tests reach
/// it.
const MAX_DATA: usize = 8192;

/// Function of a server that replies to a message; `None` for no reply.
pub(super) type Serve = dyn FnMut(&[u8]) -> Option<Vec<u8>> + Send;

#[derive(Default)]
struct State {
    submissions: u64,
    /// Replies by request, and how often they were polled.
    replies: HashMap<u64, (Reply, u32)>,
    is_stopped: bool,
    now: u64,
    /// Messages that the server has not handled yet, if it is late.
    late: Vec<Vec<u8>>,
    is_late: bool,
    sent: u64,
}

#[derive(Clone)]
pub(super) struct ModelTransport {
    serve: Arc<Mutex<Serve>>,
    state: Arc<Mutex<State>>,
    max_data: usize,
}

impl Debug for ModelTransport {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str("ModelTransport")
    }
}

impl ModelTransport {
    pub(super) fn new(serve: impl FnMut(&[u8]) -> Option<Vec<u8>> + Send + 'static) -> Self {
        Self { serve: Arc::new(Mutex::new(serve)), state: Arc::default(), max_data: MAX_DATA }
    }

    /// The transport with another maximum of the data of a request, and with memory for all of them.
    pub(super) fn with_max_data(self, max_data: usize) -> Self {
        Self { max_data, ..self }
    }

    /// Advances the clock by a number of nanoseconds.
    pub(super) fn pass(&self, nanoseconds: u64) {
        self.state.lock().now += nanoseconds;
    }

    /// The server handles messages that were sent only when a call waits for that.
    pub(super) fn be_late(&self) {
        self.state.lock().is_late = true;
    }
}

#[derive(Debug)]
pub(super) struct Reply {
    tag: Tag,
    bytes: Vec<u8>,
}

impl ServedReply for Reply {
    fn tag(&self) -> Tag {
        self.tag
    }

    fn size(&self) -> usize {
        self.bytes.len()
    }

    fn read(&self, offset: usize, bytes: &mut [u8]) -> usize {
        let rest = self.bytes.get(offset..).unwrap_or_default();
        let count = rest.len().min(bytes.len());
        bytes[..count].copy_from_slice(&rest[..count]);
        count
    }
}

impl Transport for ModelTransport {
    type Reply = Reply;
    type RawLock = parking_lot::RawMutex;

    fn now(&self) -> u64 {
        self.state.lock().now
    }

    fn max_data(&self) -> usize {
        self.max_data
    }

    fn min_data(&self) -> usize {
        1000
    }

    fn submit(&self, _: &Context<'_>, request: &Request<'_>) -> Poll<Result<NonZeroU64, Errno>> {
        assert!(request.head.len() <= MAX_HEAD && request.reply_head <= MAX_REPLY_HEAD);
        assert!(request.data.len() <= self.max_data && request.reply_data <= self.max_data);
        let mut state = self.state.lock();
        if state.is_stopped {
            return Poll::Ready(Err(Errno::EIO));
        }
        state.submissions += 1;
        match state.submissions % 7 {
            3 => return Poll::Pending,
            // The client asks for less.
            5 if self.max_data == MAX_DATA && request.data.len().max(request.reply_data) > 1000 => {
                return Poll::Ready(Err(Errno::ENOMEM));
            }
            _ => {}
        }
        let number = state.submissions;
        drop(state);
        let message = [request.head, request.data].concat();
        let mut bytes = (self.serve.lock())(&message).expect("a reply");
        bytes.truncate(request.reply_head + request.reply_data);
        self.state.lock().replies.insert(number, (Reply { tag: request.tag, bytes }, 0));
        Poll::Ready(Ok(NonZeroU64::new(number).expect("not zero")))
    }

    fn poll(&self, _: &Context<'_>, request: NonZeroU64) -> Poll<Result<Reply, Errno>> {
        let mut state = self.state.lock();
        if state.is_stopped {
            return Poll::Ready(Err(Errno::EIO));
        }
        let (_, polls) = state.replies.get_mut(&request.get()).expect("a request in flight");
        *polls += 1;
        if *polls < 3 {
            return Poll::Pending;
        }
        Poll::Ready(Ok(state.replies.remove(&request.get()).expect("a request in flight").0))
    }

    fn release(&self, _: Reply) {}

    fn send(&self, message: &[u8], has_reply: bool) {
        assert!(message.len() <= 64);
        let mut state = self.state.lock();
        state.sent += 1;
        if state.is_late {
            return state.late.push(message.to_vec());
        }
        drop(state);
        if !self.is_stopped() {
            let reply = (self.serve.lock())(message);
            assert_eq!(reply.is_some(), has_reply);
        }
    }

    fn sent(&self) -> u64 {
        self.state.lock().sent
    }

    fn poll_handled(&self, _: &Context<'_>, count: u64) -> Poll<()> {
        let mut state = self.state.lock();
        if state.sent - (state.late.len() as u64) >= count || state.is_stopped {
            return Poll::Ready(());
        }
        // The messages are handled one after the other, the last one first.
        let message = state.late.pop().expect("a message");
        drop(state);
        (self.serve.lock())(&message);
        Poll::Pending
    }

    fn is_stopped(&self) -> bool {
        self.state.lock().is_stopped
    }

    fn stop(&self) {
        self.state.lock().is_stopped = true;
    }
}
