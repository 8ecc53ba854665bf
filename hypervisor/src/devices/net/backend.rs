//! What connects a network device with a network.

use std::fmt::Debug;
use std::io;
use std::os::fd::RawFd;

use vm_memory::VolatileSlice;

use super::header::{Header, Offloads};
use crate::devices::virtio::DeviceError;

/// There will be no more frames, in neither direction.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Lost(#[from] pub io::Error);

/// A frame that has arrived.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// As the network has it: not checked.
    pub header: Header,
    /// Bytes of the frame. If there was no room for all of it, this is more than there was room for, or as much.
    pub length: usize,
}

/// What has become of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It is on its way, or lost as frames sometimes are.
    Taken,
    /// The network has no room now, and did nothing: [`Backend::output`] tells when.
    Later,
}

/// One end of a cable. No call waits for anything.
pub trait Backend: Debug + Send {
    /// Whether frames may come and go with checksums to be completed, and as long segments to be cut.
    fn has_offloads(&self) -> bool;

    /// From now on frames may come so.
    ///
    /// # Errors
    ///
    /// The host cannot do it.
    fn set_offloads(&mut self, offloads: Offloads) -> io::Result<()>;

    /// Puts the next frame into `room`; nothing if there is none.
    ///
    /// # Errors
    ///
    /// [`Lost`].
    fn receive(&mut self, room: &[VolatileSlice<'_>]) -> Result<Option<Received>, Lost>;

    /// Sends a frame whose header has been checked. The guest may change the frame meanwhile.
    ///
    /// # Errors
    ///
    /// [`Lost`].
    fn send(&mut self, header: Header, frame: &[VolatileSlice<'_>]) -> Result<Sent, Lost>;

    /// Has frames that were taken leave. It is called again when [`Self::output`] is writable unless it says [`Sent::Taken`].
    ///
    /// # Errors
    ///
    /// [`Lost`].
    fn flush(&mut self) -> Result<Sent, Lost>;

    /// Readable once there is a frame.
    fn input(&self) -> RawFd;

    /// Writable once a frame can be sent; another descriptor than [`Self::input`].
    fn output(&self) -> RawFd;
}

/// Why a queue cannot be served any further.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// See [`DeviceError`].
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// See [`Lost`].
    #[error(transparent)]
    Lost(#[from] Lost),
}
