//! Messages for which no task waits, unless it waits for all of them.

use core::task::Waker;

use hermit_fuse::{OutHeader, Request};

use super::request::{LateMessage, OneWayMessage};
use super::{FsDriver, Slot};
use crate::dma::DmaMemory;
use crate::transport::Transport;

impl<T: Transport, M: DmaMemory> FsDriver<T, M> {
    /// Sends a message that has no reply, or one that does not matter; it is lost if the device has failed, or if it cannot be
    /// sent at once and there is no memory to keep it. `bytes` are at most 64.
    pub fn send(&mut self, bytes: &[u8], has_reply: bool) {
        if self.device.ensure_usable().is_err() {
            return;
        }
        let Some(message) = LateMessage::new(bytes, has_reply) else { return };
        let is_sent = self.try_send(&message);
        if !is_sent && self.late.try_reserve(1).is_err() {
            return;
        }
        self.sent += 1;
        if !is_sent {
            self.late.push(message);
        }
    }

    /// Number of messages that were [sent](Self::send) and are not lost.
    #[must_use]
    pub const fn sent(&self) -> u64 {
        self.sent
    }

    /// Whether the device has handled as many of those messages as `count` says, in any order, or has failed. Else the waker
    /// is among [those that wait](Self::waiting) until then.
    pub fn is_handled(&mut self, count: u64, waker: &Waker) -> bool {
        if self.handled < count {
            // Before the messages are collected: only then is the interrupt armed for each.
            self.wait(waker);
            self.collect_messages();
        }
        self.handled >= count || self.device.ensure_usable().is_err()
    }

    /// Sends a message, if there is room for it.
    fn try_send(&mut self, message: &LateMessage) -> bool {
        if message.has_reply {
            let free = self.slots.iter().position(|slot| matches!(slot, Slot::Free(_)));
            let request =
                Request { head: message.bytes(), reply_head: size_of::<OutHeader>(), ..Request::default() };
            return free.is_some_and(|index| self.start(index, None, &request, None).is_ok());
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

    /// Takes back the buffers of messages that the device has read. Its interrupt is of use only if there are no others, or if
    /// a task may wait for it.
    pub(super) fn collect_messages(&mut self) {
        loop {
            let is_awaited = self.free_messages.is_empty() || !self.waiting.is_empty();
            let used = if is_awaited { self.hiprio.complete_or_arm() } else { self.hiprio.complete() };
            match self.device.checked(used) {
                Ok(Some(used)) => {
                    self.free_messages.push(used.chain.into_buffer());
                    self.handled += 1;
                }
                Ok(None) | Err(_) => return,
            }
        }
    }

    /// Sends the messages for which there was no room, as far as there is now.
    pub(super) fn send_late(&mut self) {
        while let Some(message) = self.late.pop() {
            if self.device.ensure_usable().is_ok() && !self.try_send(&message) {
                // Does not allocate: the vector had room for it.
                self.late.push(message);
                return;
            }
        }
    }
}
