//! Network backends: the host's side of a network device.
//!
//! | module | |
//! | --- | --- |
//! | [`tap`] | a TAP interface of the host |
//! | [`user`] | sockets of the host |
//! | [`stream`] | frames in a byte stream, as QEMU exchanges them |
//! | `iovec` | scatter-gather I/O between file descriptors and guest memory |

pub(super) mod iovec;
pub mod stream;
pub mod tap;
pub mod user;

use std::fmt::Debug;
use std::io;
use std::os::fd::RawFd;

use vm_memory::VolatileSlice;

use super::header::{Offloads, VnetHeader};
use crate::devices::virtio::DeviceError;

/// The backend is gone: it neither delivers nor accepts frames any more.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Disconnected(#[from] pub io::Error);

/// A frame that the backend has delivered.
#[derive(Clone, Copy, Debug)]
pub struct ReceivedFrame {
    /// Header as the backend has received it, not validated.
    pub header: VnetHeader,
    /// Size in bytes of the frame. If the frame does not fit into the buffers, at least their size.
    pub length: usize,
}

/// Result of handing a frame to the backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxStatus {
    /// The backend has accepted the frame. It may still be lost, as on any Ethernet.
    Accepted,
    /// The backend cannot accept the frame now, and has done nothing. The caller tries again once
    /// [`Backend::output`] is writable.
    WouldBlock,
}

/// Host side of a network device. No method blocks.
pub trait Backend: Debug + Send {
    /// Returns true if the backend supports checksum and segmentation offload in both directions.
    fn has_offloads(&self) -> bool;

    /// Sets the guest's offloads. Frames that the backend delivers after this call may rely on them.
    ///
    /// # Errors
    ///
    /// The host does not support them.
    fn set_offloads(&mut self, offloads: Offloads) -> io::Result<()>;

    /// Returns false if the backend certainly has no frame, so that the caller needs no buffers for
    /// [`Self::receive`]. In this case [`Self::input`] becomes readable once there is a frame.
    fn may_have_frame(&mut self) -> bool {
        true
    }

    /// Writes the next frame to `buffers`. Returns `None` if there is no frame.
    ///
    /// # Errors
    ///
    /// The backend is [`Disconnected`].
    fn receive(&mut self, buffers: &[VolatileSlice<'_>]) -> Result<Option<ReceivedFrame>, Disconnected>;

    /// Sends a frame with a validated header. The guest may modify the frame at any time.
    ///
    /// # Errors
    ///
    /// The backend is [`Disconnected`].
    fn send(&mut self, header: VnetHeader, frame: &[VolatileSlice<'_>]) -> Result<TxStatus, Disconnected>;

    /// Writes out accepted frames. Returns [`TxStatus::WouldBlock`] if some are not written yet: the caller
    /// calls again once [`Self::output`] is writable.
    ///
    /// # Errors
    ///
    /// The backend is [`Disconnected`].
    fn flush(&mut self) -> Result<TxStatus, Disconnected>;

    /// Waits, for a limited time, until all data of the guest has left this process. The device calls it
    /// after the guest has ended.
    fn finish(&mut self) {}

    /// Returns the file descriptor that is readable once there is a frame.
    fn input(&self) -> RawFd;

    /// Returns the file descriptor that is writable once a frame can be sent. It differs from
    /// [`Self::input`], so that epoll(7) can watch each separately.
    fn output(&self) -> RawFd;
}

/// Reason why a queue cannot be served any further.
#[derive(Debug, thiserror::Error)]
pub(super) enum ServeError {
    /// The driver violates the specification, or guest memory is not mapped.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The backend is disconnected.
    #[error(transparent)]
    Disconnected(#[from] Disconnected),
}
