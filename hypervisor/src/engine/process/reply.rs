//! Answers to what a guest wants from this process.

use hermit_interface::process::OUT_SIZE;

use super::listener::Answer;
use super::request::Request;
use crate::engine::Exit;

/// The answer to a system call that waits, while it is found.
#[derive(Debug, Default)]
pub(super) struct Reply {
    answer: Option<Waiting>,
    /// What is read or written.
    bytes: [u8; OUT_SIZE],
}

/// What the answer will be.
#[derive(Clone, Copy, Debug)]
enum Waiting {
    Known(Answer),
    /// So many bytes that were read.
    Bytes(usize),
}

impl Reply {
    /// To a call that this process has nothing to do with.
    pub(super) const fn known(answer: Answer) -> Self {
        Self { answer: Some(Waiting::Known(answer)), bytes: [0; OUT_SIZE] }
    }

    /// What is to be done for a request. Then [`Self::take`] has the answer.
    pub(super) fn find(&mut self, request: &Request) -> Exit<'_> {
        self.answer = Some(match *request {
            Request::Read { size, .. } => Waiting::Bytes(size),
            Request::Write { .. } | Request::Out { .. } => Waiting::Known(Answer::Value(0)),
            Request::Invalid => Waiting::Known(Answer::Error(libc::EINVAL)),
        });
        match *request {
            Request::Read { address, size } => Exit::Read(address, self.hold(&[], size)),
            Request::Write { address, size, bytes } => Exit::Write(address, self.hold(&bytes, size)),
            Request::Out { port, size, bytes } => Exit::PortWrite(port, self.hold(&bytes, size)),
            // The answer says that it is wrong.
            Request::Invalid => Exit::Interrupted,
        }
    }

    /// The answer, if a call waits for one.
    pub(super) fn take(&mut self) -> Option<Answer> {
        self.answer.take().map(|answer| match answer {
            Waiting::Known(answer) => answer,
            Waiting::Bytes(size) => {
                let mut value = [0; 8];
                for (to, from) in value.iter_mut().zip(self.bytes.iter().take(size)) {
                    *to = *from;
                }
                Answer::Value(i64::from_le_bytes(value))
            }
        })
    }

    /// So many bytes, the first of which are these.
    fn hold(&mut self, bytes: &[u8], size: usize) -> &mut [u8] {
        for (to, from) in self.bytes.iter_mut().zip(bytes) {
            *to = *from;
        }
        self.bytes.get_mut(..size).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::{Answer, Reply, Request};
    use crate::engine::Exit;

    #[test]
    fn what_was_read_is_the_answer_once() {
        let mut reply = Reply::default();
        let Exit::Read(7, bytes) = reply.find(&Request::Read { address: 7, size: 2 }) else {
            panic!("no read")
        };
        bytes.copy_from_slice(&[0x34, 0x12]);
        assert_eq!(reply.take(), Some(Answer::Value(0x1234)));
        assert_eq!(reply.take(), None);
    }

    #[test]
    fn what_was_written_is_there_and_nothing_else() {
        let mut reply = Reply::default();
        let write = Request::Write { address: 8, size: 2, bytes: [1, 2, 3, 4, 5, 6, 7, 8] };
        assert!(matches!(reply.find(&write), Exit::Write(8, &[1, 2])));
        assert_eq!(reply.take(), Some(Answer::Value(0)));
        assert!(matches!(reply.find(&Request::Invalid), Exit::Interrupted));
        assert_eq!(reply.take(), Some(Answer::Error(libc::EINVAL)));
        assert_eq!(Reply::known(Answer::Continue).take(), Some(Answer::Continue));
    }
}
