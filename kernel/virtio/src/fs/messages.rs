//! Messages whose replies no task awaits.

use core::task::Waker;

use hermit_fuse::{OutHeader, Request};

use super::FsDriver;
use super::request::{LateMessage, OneWayMessage};
use crate::dma::DmaMemory;
use crate::transport::Transport;

/// Result of [`FsDriver::poll_handled`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// True if the device has handled at least the requested number of messages, or has failed.
    pub is_handled: bool,
    /// True if the call has made wakers due, or the device has failed: the caller must wake the wakers that
    /// [`FsDriver::next_waker`] returns. The call has collected the completions itself, so there may be no
    /// interrupt for them.
    pub is_wake_due: bool,
}

impl<T: Transport, M: DmaMemory> FsDriver<T, M> {
    /// Sends a message of at most 64 bytes that has no reply, or a reply that does not matter. The message is
    /// lost if the device has failed, or if it cannot be sent at once and there is no memory to keep it.
    /// Returns true if tasks [must be woken](Progress::is_wake_due).
    #[must_use]
    pub fn send(&mut self, bytes: &[u8], has_reply: bool) -> bool {
        if self.is_stopped() {
            return false;
        }
        let Some(message) = LateMessage::new(bytes, has_reply) else { return false };
        let before = self.handled;
        let is_sent = self.try_send(&message);
        if is_sent || self.late.try_reserve(1).is_ok() {
            self.sent += 1;
            if !is_sent {
                self.late.push(message);
            }
        }
        self.follow_up(before)
    }

    /// Number of messages that were [sent](Self::send) and are not lost.
    #[must_use]
    pub const fn sent(&self) -> u64 {
        self.sent
    }

    /// Checks if the device has handled `count` of the sent messages, in any order, or has failed. If not,
    /// the waker is woken later to check again: each handled message wakes one task, and each task that has
    /// finished waiting wakes the next one.
    pub fn poll_handled(&mut self, count: u64, waker: &Waker) -> Progress {
        let before = self.handled;
        let mut is_wake_due = false;
        if before < count && !self.is_stopped() {
            // Adds the waker before it collects the messages, because the interrupt is armed only if a task
            // waits.
            self.waiting_for_messages.add(waker);
            self.collect_messages();
            is_wake_due = self.follow_up(before);
        }
        let is_handled = self.handled >= count || self.is_stopped();
        if is_handled {
            self.waiting_for_messages.tasks.withdraw(waker);
            self.waiting_for_messages.wake_next();
            is_wake_due |= self.waiting_for_messages.due > 0;
        }
        Progress { is_handled, is_wake_due }
    }

    /// Counts a message that the device has handled.
    pub(super) fn count_handled(&mut self) {
        self.handled += 1;
        self.waiting_for_messages.wake_next();
    }

    /// Ends an operation that may have collected messages. `before` is the number of messages that were
    /// handled before the operation. If more are handled now, sends messages that waited for room. Returns
    /// true if tasks [must be woken](Progress::is_wake_due).
    fn follow_up(&mut self, before: u64) -> bool {
        if self.handled > before {
            self.send_late();
        }
        let waiting = [&self.waiting_for_slot, &self.waiting_for_data, &self.waiting_for_messages];
        self.is_stopped() || waiting.iter().any(|waiting| waiting.due > 0)
    }

    /// Sends a message, if there is room for it. Returns true if the message was sent.
    fn try_send(&mut self, message: &LateMessage) -> bool {
        if message.has_reply {
            let free = self.free_slot();
            let request =
                Request { head: message.bytes(), reply_head: size_of::<OutHeader>(), ..Request::default() };
            let reserved = free.and_then(|index| self.take_slot(index, None, None).ok());
            return reserved.is_some_and(|reserved| self.submit(reserved.fill(&request)).is_ok());
        }
        self.collect_messages();
        let Some(buffer) = self.free_messages.pop() else { return false };
        match self.hiprio.submit(OneWayMessage::new(buffer, message.bytes())) {
            Ok(_) => {
                self.hiprio.notify(self.device.transport());
                true
            }
            Err(refused) => {
                self.free_messages.push(refused.chain.into_buffer());
                false
            }
        }
    }

    /// Takes back the buffers of messages that the device has read. Arms the interrupt only if no buffer is
    /// left, or if a task waits for the messages.
    pub(super) fn collect_messages(&mut self) {
        loop {
            let is_awaited = self.free_messages.is_empty() || !self.waiting_for_messages.tasks.is_empty();
            let used = if is_awaited { self.hiprio.complete_or_arm() } else { self.hiprio.complete() };
            match self.device.checked(used) {
                Ok(Some(used)) => {
                    self.free_messages.push(used.chain.into_buffer());
                    self.count_handled();
                }
                Ok(None) | Err(_) => return,
            }
        }
    }

    /// Sends messages that waited for room, as many as there is room for now.
    pub(super) fn send_late(&mut self) {
        while let Some(message) = self.late.pop() {
            if self.device.ensure_usable().is_ok() && !self.try_send(&message) {
                // Does not allocate: the vector still has the capacity that the message took before.
                self.late.push(message);
                return;
            }
        }
    }
}
