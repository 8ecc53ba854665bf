//! The network device (virtio 1.2, section 5.1): one receive queue, one transmit queue, frames in place.
//!
//! Frames are read and written where the device writes and reads them: in two [arenas](crate::dma::mirrored), one for each
//! direction. Nothing is copied, and nothing is allocated once the driver is made.
//!
//! - **Receiving.** The arena is cut into buffers, which the device has in their order. A frame in several buffers
//!   (`VIRTIO_NET_F_MRG_RXBUF`) is contiguous, for they lie one behind the other, and only the first one has a header. A device
//!   that uses them in another order loses only frames of several buffers.
//! - **Transmitting.** The arena is a ring: a frame takes the bytes behind the one before it, and gives them back when all
//!   before it are done.
//!
//! # Calls
//!
//! [`Net::receive`] and [`Net::transmit`] only queue; [`Net::notify`] tells the device, so it comes after the last call of
//! a batch. Nobody is interrupted unless [`Net::set_rx_interrupt`] was switched on or [`Net::can_transmit`] said no. Who
//! waits for frames calls `receive` until there is none, then `flush`, then `set_rx_interrupt(true)`, and waits if that is
//! `false`.

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
use self::tx::Tx;
use crate::device::{Device, DeviceError, InitError};
use crate::dma::mirrored::{MirroredAllocator, MirroredMemory};
use crate::dma::{DmaAllocator, DmaMemory};
use crate::transport::{InterruptCause, Transport};

/// Bytes of an Ethernet header.
pub const ETHERNET_HEADER: usize = 14;

/// Largest frame, in bytes without the frame check sequence: an IPv4 packet of 65,535 bytes, and one more byte as the
/// standard counts (section 5.1.6.3.1).
pub const MAX_FRAME: usize = 65_550;

/// The numbers of the queues (section 5.1.2).
const RECEIVEQ: u16 = 0;
const TRANSMITQ: u16 = 1;

/// Why a frame was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetError {
    /// There is no room now; see [`Net::can_transmit`].
    #[error("no room for the frame")]
    Full,
    /// A frame has at least a header and at most [`MAX_FRAME`] bytes.
    #[error("no frame has that size")]
    Size,
    /// The device does not do this with frames ([`Net::info`]), or the places are not in the frame.
    #[error("the device cannot finish the frame in this way")]
    Offload,
    /// The device has failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// The driver.
#[derive(Debug)]
pub struct Net<T: Transport, M, A> {
    device: Device<T>,
    rx: Rx<M, A>,
    tx: Tx<M, A>,
    info: NetInfo,
    /// Whether something was found in a queue since the last interrupt.
    has_completed: bool,
}

impl<T: Transport, M: DmaMemory, A: MirroredMemory> Net<T, M, A> {
    /// Takes the device into use. It receives from now on, but interrupts nobody.
    ///
    /// # Errors
    ///
    /// It is no network device, does not behave, or there is no memory.
    pub fn new<D>(transport: T, dma: &D, sizes: BufferSizes) -> Result<Self, InitError>
    where
        D: DmaAllocator<Memory = M> + MirroredAllocator<Mirrored = A>,
    {
        let mut device = Device::start_with(transport, Id::Net, |offered| F::from(config::wanted(offered)))?;
        let info = NetInfo::read(&device)?;
        let buffer = buffer_sizes::min_buffer_size(device.features().into(), info.mtu);
        let (rx_memory, tx_memory) = sizes.allocate(dma, buffer)?;
        let mut rx = Rx::new(&mut device, dma, rx_memory, buffer)?;
        let tx = Tx::new(&mut device, dma, tx_memory)?;
        device.set_driver_ok();
        rx.post();
        rx.notify(&mut device);
        Ok(Self { device, rx, tx, info, has_completed: false })
    }

    /// What the device can do. `link_up` may change: see [`Net::interrupt`].
    #[must_use]
    pub const fn info(&self) -> NetInfo {
        self.info
    }

    /// Has `take` use the next frame, then gives its buffers back to the device; `None` if there is none.
    ///
    /// What cannot be a frame is rx_dropped ([`Net::rx_dropped`]).
    ///
    /// # Errors
    ///
    /// The device has failed, now or earlier.
    pub fn receive<R>(&mut self, take: impl FnOnce(&[u8], RxInfo) -> R) -> Result<Option<R>, DeviceError> {
        self.device.ensure_usable()?;
        let Some(frame) = self.rx.next(&mut self.device)? else { return Ok(None) };
        self.has_completed = true;
        let result = self.rx.with_frame(frame, take);
        self.rx.release(&mut self.device);
        Ok(result)
    }

    /// How many received frames were rx_dropped, since they could not be any, or were in buffers that are not in order.
    #[must_use]
    pub const fn rx_dropped(&self) -> u64 {
        self.rx.dropped()
    }

    /// Whether a frame of that size can be transmitted now. If not, what has been queued is flushed, and an interrupt comes
    /// once there is more room; with a device that has failed it never comes.
    ///
    /// After this, and before any other call, [`Net::transmit`] of such a frame can fail only for its [`TxOffload`].
    pub fn can_transmit(&mut self, size: usize) -> bool {
        self.device.ensure_usable().is_ok() && self.tx.make_room(&mut self.device, size).unwrap_or(false)
    }

    /// Has `fill` write a frame of that many bytes, all of them, and queues it.
    ///
    /// # Errors
    ///
    /// There is no room, the frame or what is to be done with it is not possible, or the device has failed; `fill` was not
    /// called.
    pub fn transmit<R>(
        &mut self,
        size: usize,
        offload: TxOffload,
        fill: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<R, NetError> {
        self.device.ensure_usable()?;
        let header = offload.header(&self.info, size)?;
        self.tx.queue(size, &header, fill)
    }

    /// Tells the device, once for each queue and only if it wants to know, of all that was queued.
    pub fn notify(&mut self) {
        self.rx.notify(&mut self.device);
        self.tx.notify(&mut self.device);
    }

    /// Whether the device still has frames to transmit. Then an interrupt comes when it is done with all of them.
    ///
    /// # Errors
    ///
    /// The device has failed.
    pub fn arm_tx_empty(&mut self) -> Result<bool, DeviceError> {
        self.device.ensure_usable()?;
        self.tx.arm_tx_empty(&mut self.device)
    }

    /// Whether the device has taken all that was transmitted. No interrupt comes when it has.
    ///
    /// # Errors
    ///
    /// The device has failed.
    pub fn is_tx_empty(&mut self) -> Result<bool, DeviceError> {
        self.device.ensure_usable()?;
        self.tx.reclaim(&mut self.device)?;
        Ok(self.tx.is_empty())
    }

    /// Switches interrupts for received frames on or off; whether there is a frame already, for which none may come.
    ///
    /// Once it is on, an interrupt comes with the next frame; others may follow. The line must be let through before the
    /// first time. Off is a hint: some may come.
    ///
    /// # Errors
    ///
    /// The device has failed.
    pub fn set_rx_interrupt(&mut self, on: bool) -> Result<bool, DeviceError> {
        self.device.ensure_usable()?;
        self.rx.interrupts(&mut self.device, on)
    }

    /// Takes an interrupt: there may be frames, room for frames, or a change of the link.
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

    /// Looks at the link and whether the device says that it has failed; for those who have waited long. Where interrupts
    /// are messages, the one for such a change may be taken for one of a queue.
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
