//! Frames from the guest.

use virtio_queue::{Queue, QueueT};
use vm_memory::{GuestMemoryMmap, Permissions};

use super::backend::{Backend, Failure, Sent};
use super::header::{BadHeader, HEADER, Header, Offloads};
use super::vectored::MAX_PIECES;
use super::{MAX_FRAME, MIN_FRAME};
use crate::devices::report::Once;
use crate::devices::virtio::chain::{Buffers, Chain};
use crate::devices::virtio::{DeviceError, Served, WORK_LIMIT};

/// Why a frame is dropped.
#[derive(Debug, thiserror::Error)]
enum BadFrame {
    #[error("it has {0} bytes")]
    Length(usize),
    #[error("it is in too many pieces")]
    Pieces,
    #[error(transparent)]
    Header(#[from] BadHeader),
}

/// Sends frames.
#[derive(Debug, Default)]
pub(super) struct Transmitter {
    /// What the host does for the driver.
    pub(super) offloads: Offloads,
    bad_frame: Once,
}

impl Transmitter {
    /// Sends what the guest has made available, for a while.
    ///
    /// # Errors
    ///
    /// The driver breaks the rules, or the network is gone.
    pub(super) fn serve(
        &mut self,
        backend: &mut dyn Backend,
        queue: &mut Queue,
        memory: &GuestMemoryMmap,
    ) -> Result<Served, Failure> {
        let served = self.send_all(backend, queue, memory)?;
        // What was collected leaves now, or when there is room: the queue waits for that, too.
        Ok(if backend.flush()? == Sent::Taken { served } else { Served::Waiting })
    }

    fn send_all(
        &mut self,
        backend: &mut dyn Backend,
        queue: &mut Queue,
        memory: &GuestMemoryMmap,
    ) -> Result<Served, Failure> {
        let mut work = 0;
        for _ in 0..queue.size() {
            let Some(chain) = Chain::next(queue, memory)? else { return Ok(Served::All) };
            let head = chain.head;
            work += chain.length();
            match self.send(chain.into_readable()?, backend, memory) {
                Ok(Sent::Taken) => {}
                // It is read again when there is room.
                Ok(Sent::Later) => {
                    put_back(queue);
                    return Ok(Served::Waiting);
                }
                Err(error) => {
                    put_back(queue);
                    return Err(error);
                }
            }
            queue.add_used(memory, head, 0).map_err(DeviceError::from)?;
            if work >= WORK_LIMIT {
                break;
            }
        }
        Ok(Served::Partly)
    }

    /// Sends one frame. How the driver cuts header and frame into pieces means nothing (section 2.7.4).
    fn send(
        &mut self,
        mut buffers: Buffers,
        backend: &mut dyn Backend,
        memory: &GuestMemoryMmap,
    ) -> Result<Sent, Failure> {
        let mut header = [0; HEADER];
        let length = buffers.length();
        if buffers.read(memory, &mut header)? < HEADER {
            return Err(DeviceError::Length(length as u64).into());
        }
        let header = match self.checked(header.into(), &buffers) {
            Ok(header) => header,
            Err(error) => {
                self.bad_frame.warn(format_args!("network: a frame of the guest's is dropped: {error}"));
                return Ok(Sent::Taken);
            }
        };
        let mut frame = Vec::with_capacity(buffers.pieces());
        buffers.slices(0, memory, Permissions::Read, &mut frame)?;
        Ok(backend.send(header, &frame)?)
    }

    fn checked(&self, header: Header, frame: &Buffers) -> Result<Header, BadFrame> {
        let length = frame.length();
        if !(MIN_FRAME..=MAX_FRAME).contains(&length) {
            return Err(BadFrame::Length(length));
        }
        if frame.pieces() > MAX_PIECES {
            return Err(BadFrame::Pieces);
        }
        Ok(header.checked(length, self.offloads)?)
    }
}

/// The chain that was taken last is still to be served.
fn put_back(queue: &mut Queue) {
    queue.set_next_avail(queue.next_avail().wrapping_sub(1));
}
