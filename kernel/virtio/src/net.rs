//! The network device (virtio 1.2, section 5.1): one receive queue, one transmit queue, frames without
//! copies.
//!
//! Frames are read and written in place, in [mirrored memory](crate::dma::mirrored), one piece for each
//! direction. After initialization nothing is copied or allocated.
//!
//! - **RX.** The memory is split into buffers, which are posted in order of address. A frame in several
//!   buffers (`VIRTIO_NET_F_MRG_RXBUF`) is contiguous, since the buffers are adjacent and only the first one
//!   begins with a header. If a device uses buffers in another order, frames in several buffers are dropped.
//! - **TX.** The memory is a ring: a frame takes the bytes after the previous frame, and frees them once all
//!   earlier frames have been used.
//!
//! # Calls
//!
//! [`NetDriver::release_frame`] and [`NetDriver::submit_frame`] do not notify the device;
//! [`NetDriver::notify`] does, after a batch of calls. Interrupts are disarmed until
//! [`NetDriver::set_rx_interrupt`] enables them or [`NetDriver::can_transmit`] returns `false`. To wait for
//! frames, a thread takes and releases frames until there is none, then `notify`, then
//! `set_rx_interrupt(true)`, and blocks if that returns `false`.

mod buffer_sizes;
mod config;
mod header;
mod reorder;
mod rx;
mod tx;

#[cfg(test)]
mod tests;

use virtio_spec::{F, Id};

pub use self::buffer_sizes::BufferSizes;
pub use self::config::{NetInfo, TsoSupport};
pub use self::header::{ChecksumOffload, IpVersion, RxInfo, SegmentationOffload, TxOffload};
use self::rx::Rx;
pub use self::rx::RxFrame;
use self::tx::Tx;
pub use self::tx::{TxFrame, TxReservation};
use crate::device::{Device, DeviceError, InitError};
use crate::dma::mirrored::{MirroredAllocator, MirroredMemory};
use crate::dma::{DmaAllocator, DmaMemory};
use crate::transport::{InterruptCause, Transport};

/// Size of an Ethernet header in bytes.
pub const ETHERNET_HEADER: usize = 14;

/// Maximum size of a frame in bytes, without the frame check sequence: an IPv4 packet of 65,535 bytes with
/// its Ethernet header, and one more byte as the specification counts (section 5.1.6.3.1).
pub const MAX_FRAME: usize = 65_550;

/// Indices of the virtqueues (section 5.1.2).
const RECEIVEQ: u16 = 0;
const TRANSMITQ: u16 = 1;

/// Why a frame was not transmitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetError {
    /// The TX ring is full; see [`NetDriver::can_transmit`].
    #[error("the transmit ring is full")]
    Full,
    /// The size is less than an Ethernet header, or more than [`MAX_FRAME`].
    #[error("invalid size of a frame")]
    Size,
    /// The device does not support the offload ([`NetDriver::info`]), or its offsets lie outside the frame.
    #[error("the offload is not supported or invalid")]
    Offload,
    /// The device has failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// Driver of a network device.
#[derive(Debug)]
pub struct NetDriver<T: Transport, M, A> {
    device: Device<T>,
    rx: Rx<M, A>,
    tx: Tx<M, A>,
    info: NetInfo,
    /// True if a frame was taken since the last interrupt. That frame may be the cause of the next interrupt,
    /// although no used buffer is left then.
    has_completed: bool,
}

impl<T: Transport, M: DmaMemory, A: MirroredMemory> NetDriver<T, M, A> {
    /// Initializes the device. It receives from now on, with interrupts disarmed.
    ///
    /// # Errors
    ///
    /// The device is no network device, fails initialization, or there is no memory.
    pub fn new<D>(transport: T, dma: &D, sizes: BufferSizes) -> Result<Self, InitError>
    where
        D: DmaAllocator<Memory = M> + MirroredAllocator<Mirrored = A>,
    {
        let mut device =
            Device::start_with(transport, dma, Id::Net, |offered| F::from(config::wanted(offered)))?;
        let info = NetInfo::read(&device)?;
        let buffer = buffer_sizes::min_buffer_size(device.features().into(), info.mtu);
        let (rx_memory, tx_memory) = sizes.allocate(dma, buffer, device.permit())?;
        let mut rx = Rx::new(&mut device, dma, rx_memory, buffer)?;
        let tx = Tx::new(&mut device, dma, tx_memory)?;
        device.set_driver_ok();
        rx.post();
        rx.notify(&mut device);
        Ok(Self { device, rx, tx, info, has_completed: false })
    }

    /// Capabilities of the device and state of its link. `link_up` may change: see [`NetDriver::interrupt`].
    #[must_use]
    pub const fn info(&self) -> NetInfo {
        self.info
    }

    /// Takes the next received frame out of the driver. Returns `None` if no frame has arrived, or if the
    /// previous frame is not released yet. The caller reads the frame without the driver's lock, and passes
    /// it to [`NetDriver::release_frame`] afterwards.
    ///
    /// Invalid frames are dropped ([`NetDriver::rx_dropped`]).
    ///
    /// # Errors
    ///
    /// The device has failed.
    pub fn take_frame(&mut self) -> Result<Option<RxFrame<A>>, DeviceError> {
        self.device.ensure_usable()?;
        let frame = self.rx.take(&mut self.device)?;
        self.has_completed |= frame.is_some();
        Ok(frame)
    }

    /// Posts the buffers of a frame that [`NetDriver::take_frame`] returned, so that the device can use them
    /// again.
    pub fn release_frame(&mut self, frame: RxFrame<A>) {
        self.rx.release(&mut self.device, frame);
    }

    /// Number of received frames that the driver dropped, because they were invalid or their buffers were not
    /// adjacent.
    #[must_use]
    pub const fn rx_dropped(&self) -> u64 {
        self.rx.dropped()
    }

    /// Returns true if a frame of `size` bytes can be transmitted now. If not, this call notifies the device,
    /// and an interrupt follows when there is more room. No interrupt follows if the device has failed, or if
    /// `size` is more than [`MAX_FRAME`].
    ///
    /// If this returns true, and the next method called is [`NetDriver::reserve_frame`] with this size, that
    /// call can fail only because of its [`TxOffload`].
    pub fn can_transmit(&mut self, size: usize) -> bool {
        self.device.ensure_usable().is_ok() && self.tx.make_room(&mut self.device, size).unwrap_or(false)
    }

    /// Reserves room for a frame of `size` bytes. At most one frame is reserved at a time. The caller fills
    /// the frame without the driver's lock, and passes it to [`NetDriver::submit_frame`] afterwards.
    ///
    /// # Errors
    ///
    /// The ring is full, another frame is reserved, size or offload is invalid, or the device has failed.
    pub fn reserve_frame(&mut self, size: usize, offload: TxOffload) -> Result<TxReservation<A>, NetError> {
        self.device.ensure_usable()?;
        let header = offload.header(&self.info, size)?;
        self.tx.reserve(size, header)
    }

    /// Queues a frame that was reserved with [`NetDriver::reserve_frame`] and then filled.
    pub fn submit_frame(&mut self, frame: TxFrame<A>) {
        self.tx.submit(frame);
    }

    /// Notifies the device, at most once per virtqueue, of the buffers and frames queued since the last call.
    pub fn notify(&mut self) {
        self.rx.notify(&mut self.device);
        self.tx.notify(&mut self.device);
    }

    /// Returns true if frames are in flight. Then an interrupt follows when the device has used all of them.
    ///
    /// # Errors
    ///
    /// The device has failed.
    pub fn arm_tx_empty(&mut self) -> Result<bool, DeviceError> {
        self.device.ensure_usable()?;
        self.tx.arm_tx_empty(&mut self.device)
    }

    /// Returns true if the device has used all frames. No interrupt signals this.
    ///
    /// # Errors
    ///
    /// The device has failed.
    pub fn is_tx_empty(&mut self) -> Result<bool, DeviceError> {
        self.device.ensure_usable()?;
        self.tx.reclaim(&mut self.device)?;
        Ok(self.tx.is_empty())
    }

    /// Enables or disables interrupts for received frames. Returns true if a frame has arrived already; there
    /// may be no interrupt for that frame.
    ///
    /// Once interrupts are enabled, the next frame raises one; further frames may raise more. Disabling them
    /// is a hint: the device may still raise a few. The interrupt line must be unmasked before interrupts are
    /// first enabled.
    ///
    /// # Errors
    ///
    /// The device has failed.
    pub fn set_rx_interrupt(&mut self, on: bool) -> Result<bool, DeviceError> {
        self.device.ensure_usable()?;
        self.rx.set_interrupt(&mut self.device, on)
    }

    /// Acknowledges an interrupt, after which there may be frames, room for frames, or a change of the link.
    ///
    /// # Errors
    ///
    /// The device has failed.
    pub fn interrupt(&mut self) -> Result<InterruptCause, DeviceError> {
        let has_completed = core::mem::take(&mut self.has_completed);
        let (rx, tx) = (&self.rx, &self.tx);
        let cause = self.device.interrupt(|| has_completed || rx.has_used() || tx.has_used())?;
        if cause.config {
            self.info.update_link(&self.device);
        }
        Ok(cause)
    }

    /// Checks the link and `DEVICE_NEEDS_RESET`, for callers that have timed out. With MSI-X, the driver may
    /// mistake the interrupt for a configuration change for an interrupt of a virtqueue, and so miss the
    /// change.
    ///
    /// # Errors
    ///
    /// The device has failed.
    pub fn check_status(&mut self) -> Result<(), DeviceError> {
        self.device.check_status()?;
        self.info.update_link(&self.device);
        Ok(())
    }
}
