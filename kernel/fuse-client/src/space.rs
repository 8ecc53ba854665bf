//! Retries calls that fail because the file system or a table of the server is full, although the program has
//! just made room.
//!
//! A removed file occupies its space until the server has handled the last messages about the file: `Release`
//! and `Forget`. The program does not wait for these messages. They do not overtake requests, but later
//! requests may overtake them if the messages have a queue of their own. So a call may fail with `ENOSPC`, or
//! with `EDQUOT` because a quota is full, although the space is about to become free. Then the client waits
//! until the server has handled all messages sent so far, and makes the call once more. It does the same
//! after `ENFILE` and `EMFILE`, because a closed file also occupies its descriptor until then. Before that,
//! it releases the handles that it has kept for later opens.

use core::num::NonZeroU64;
use core::task::{Poll, ready};

use hermit_fs::{Call, Reply};
use hermit_interface::Errno;

use crate::client::FuseClient;
use crate::transport::Transport;

/// Bit of a call's ticket. If it is set, the call waits until the server has handled a number of messages.
/// The rest of the ticket is this number.
const WAITS: u64 = 1 << 62;

/// Bit of a call's ticket. If it is set, the call is made for the second time. The rest of the ticket is the
/// ticket of its requests.
const AGAIN: u64 = 1 << 61;

fn ticket(call: &Call<'_, '_>) -> u64 {
    call.ticket.map_or(0, NonZeroU64::get)
}

impl<T: Transport> FuseClient<T> {
    /// Makes a call that needs space or descriptors. If the server has none, makes the call once more when
    /// the server may have some again.
    pub(crate) fn with_space<V>(
        &self,
        call: &mut Call<'_, '_>,
        mut request: impl FnMut(&mut Call<'_, '_>) -> Reply<V>,
    ) -> Reply<V> {
        loop {
            let mut before = ticket(call);
            if before & WAITS != 0 {
                ready!(self.transport.poll_handled(call.context, before & !WAITS));
                before = AGAIN;
            }
            let again = before & AGAIN;
            *call.ticket = NonZeroU64::new(before & !AGAIN);
            match request(call) {
                Poll::Ready(Err(Errno::ENOSPC | Errno::EDQUOT | Errno::ENFILE | Errno::EMFILE))
                    if again == 0 =>
                {
                    self.release_kept();
                    *call.ticket = NonZeroU64::new(WAITS | self.transport.sent());
                }
                Poll::Pending => {
                    *call.ticket = NonZeroU64::new(ticket(call) | again);
                    return Poll::Pending;
                }
                reply => return reply,
            }
        }
    }
}
