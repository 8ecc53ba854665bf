//! Frames on their way to the guest.

use virtio_queue::{Queue, QueueT};
use vm_memory::{GuestMemoryMmap, VolatileSlice};

use super::MAX_FRAME;
use super::backend::{Backend, Failure, Received};
use super::header::{HEADER, Header, Offloads};
use super::room::Room;
use super::vectored::{MAX_PIECES, scatter};
use crate::devices::report::Once;
use crate::devices::virtio::{DeviceError, Served, WORK_LIMIT};

/// What the driver and the device have agreed upon.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Terms {
    /// A frame may be spread over several chains.
    pub(super) is_spread: bool,
    /// What the driver does for the host.
    pub(super) offloads: Offloads,
    /// Most bytes of a frame that the network takes.
    pub(super) network_frame: usize,
}

impl Terms {
    /// Most bytes of a frame.
    fn most(&self) -> usize {
        if self.offloads.has_segmentation() { MAX_FRAME } else { self.network_frame.min(MAX_FRAME) }
    }
}

/// Receives frames.
///
/// Normally the host puts a frame right into the guest's buffers, for which they must have room for any frame. Otherwise it is
/// put aside, and copied when there is room for this one.
#[derive(Debug, Default)]
pub(super) struct Receiver {
    pub(super) terms: Terms,
    room: Room,
    /// Memory for a frame that is put aside, once one was.
    aside: Box<[u8]>,
    /// The frame there.
    waiting: Option<Received>,
    bad_frame: Once,
}

/// What came of looking for a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// So many bytes were received, perhaps for nothing.
    Bytes(usize),
    /// The guest must offer more buffers.
    NoRoom,
    /// There is no frame.
    NoFrame,
}

impl Receiver {
    /// Forgets what belongs to a driver that is no more.
    pub(super) fn reset(&mut self) {
        self.room = Room::default();
        self.waiting = None;
    }

    /// Hands frames to the guest for a while.
    ///
    /// # Errors
    ///
    /// The driver breaks the rules, or there will be no more frames.
    pub(super) fn serve(
        &mut self,
        backend: &mut dyn Backend,
        queue: &mut Queue,
        memory: &GuestMemoryMmap,
    ) -> Result<Served, Failure> {
        let mut work = 0;
        for _ in 0..queue.size() {
            match self.step(backend, queue, memory)? {
                Step::Bytes(bytes) => work += bytes as u64,
                Step::NoRoom => return Ok(Served::All),
                Step::NoFrame => return Ok(Served::Waiting),
            }
            if work >= WORK_LIMIT {
                break;
            }
        }
        Ok(Served::Partly)
    }

    fn step(
        &mut self,
        backend: &mut dyn Backend,
        queue: &mut Queue,
        memory: &GuestMemoryMmap,
    ) -> Result<Step, Failure> {
        // A byte more than the longest frame has, so that one that was cut is known.
        let enough = self.terms.most() + 1;
        self.room.gather(enough + HEADER, queue, memory)?;
        if self.waiting.is_none() {
            if self.room.is_empty() {
                return Ok(Step::NoRoom);
            }
            let Some(slices) = self.direct(enough, memory)? else {
                self.waiting = backend.receive(&[self.aside()])?;
                return Ok(self.deliver(queue, memory)?);
            };
            let Some(received) = backend.receive(&slices)? else { return Ok(Step::NoFrame) };
            return Ok(self.accept(received, queue, memory)?);
        }
        Ok(self.deliver(queue, memory)?)
    }

    /// The guest's own memory, if any frame fits and one call of the host can fill it.
    fn direct<'memory>(
        &self,
        enough: usize,
        memory: &'memory GuestMemoryMmap,
    ) -> Result<Option<Vec<VolatileSlice<'memory>>>, DeviceError> {
        if self.room.length(self.terms.is_spread) < enough + HEADER {
            return Ok(None);
        }
        let slices = self.room.slices(enough, memory)?;
        Ok((slices.len() <= MAX_PIECES).then_some(slices))
    }

    /// Room for any frame that is not the guest's.
    fn aside(&mut self) -> VolatileSlice<'_> {
        if self.aside.is_empty() {
            self.aside = vec![0; MAX_FRAME + 1].into_boxed_slice();
        }
        VolatileSlice::from(&mut *self.aside)
    }

    /// Gives the guest a frame that is in its memory already.
    fn accept(
        &mut self,
        received: Received,
        queue: &mut Queue,
        memory: &GuestMemoryMmap,
    ) -> Result<Step, DeviceError> {
        if let Some(header) = self.checked(received) {
            self.room.hand_over(header, received.length, queue, memory)?;
        }
        Ok(Step::Bytes(received.length))
    }

    /// Gives the guest the frame that was put aside, as soon as there is room for it.
    fn deliver(&mut self, queue: &mut Queue, memory: &GuestMemoryMmap) -> Result<Step, DeviceError> {
        let Some(received) = self.waiting.take() else { return Ok(Step::NoFrame) };
        let Received { length, .. } = received;
        let Some(header) = self.checked(received) else { return Ok(Step::Bytes(length)) };
        if self.room.length(self.terms.is_spread) < length + HEADER {
            // Buffers that are too small for it do not grow.
            if self.room.is_all_of(queue) || (!self.terms.is_spread && !self.room.is_empty()) {
                self.bad_frame.warn(format_args!(
                    "network: the guest's buffers are too small for a frame of {length} bytes"
                ));
                return Ok(Step::Bytes(length));
            }
            self.waiting = Some(received);
            return Ok(Step::NoRoom);
        }
        let frame = self.aside.get(..length).unwrap_or_default();
        scatter(frame, &self.room.slices(length, memory)?);
        self.room.hand_over(header, length, queue, memory)?;
        Ok(Step::Bytes(length))
    }

    /// The header as the guest gets it, if it can get the frame at all.
    fn checked(&mut self, Received { header, length }: Received) -> Option<Header> {
        let most = self.terms.most();
        if length > most {
            self.bad_frame.warn(format_args!(
                "network: a frame of {length} bytes is too long for the guest, which takes {most}"
            ));
            return None;
        }
        match header.checked(length, self.terms.offloads) {
            Ok(header) => Some(header),
            Err(error) => {
                self.bad_frame.warn(format_args!("network: a frame for the guest is dropped: {error}"));
                None
            }
        }
    }
}
