//! The traditional memory balloon device (virtio 1.2, section 5.5), for free page reporting only (section
//! 5.5.6.7): the driver names free memory to the device, one range at a time, and the host discards it.
//!
//! The balloon itself is never inflated: its two queues are set up and never used. The type of a range is
//! chosen by the owner of the memory. A range is moved into [`BalloonDriver::report`] and out of
//! [`BalloonDriver::complete`], so nothing else uses the memory while the device discards it.

#[cfg(test)]
mod tests;

use core::fmt::Debug;
use core::iter;

use virtio_spec::{F, Id, balloon};

use crate::device::{Device, DeviceError, InitError};
use crate::dma::{DmaAllocator, DmaMemory, DmaSegment};
use crate::transport::{InterruptCause, Transport};
use crate::virtqueue::{DescriptorChain, Virtqueue};

/// Queues of the balloon, which every device has (section 5.5.2).
const INFLATEQ: u16 = 0;
const DEFLATEQ: u16 = 1;

/// Number of the first queue that only some devices have.
const FIRST_OPTIONAL_QUEUE: u16 = 2;

/// Features with an optional queue before `reporting_vq`.
const EARLIER_QUEUES: [balloon::F; 2] = [balloon::F::STATS_VQ, balloon::F::FREE_PAGE_HINT];

/// Free memory that the device may discard.
///
/// # Safety
///
/// The driver, which is safe code, makes the device change [`FreeMemory::size`] bytes of physical memory,
/// beginning at [`FreeMemory::address`]. So nothing may use this memory while the value exists, nor after the
/// value was dropped. The memory may be freed only by consuming the value, after the driver has given it
/// back.
#[expect(unsafe_code, reason = "declares a contract on which memory safety rests; it is fulfilled elsewhere")]
pub unsafe trait FreeMemory: Debug {
    /// Physical address.
    fn address(&self) -> u64;

    /// Size in bytes.
    fn size(&self) -> u32;
}

/// Descriptor chain of a range: one buffer, which counts as writable by the device.
#[derive(Debug)]
struct Report<R>(R);

impl<R: FreeMemory> DescriptorChain for Report<R> {
    fn segments(&self) -> impl Iterator<Item = DmaSegment> {
        iter::once(DmaSegment { address: self.0.address(), length: self.0.size(), writable: true })
    }
}

/// Number of `reporting_vq` of a device with these features.
///
/// QEMU, Cloud Hypervisor and Firecracker number the queues consecutively. The queue of each feature that the
/// device offers has a number, even if the driver does not accept the feature. This deviates from section
/// 5.5.2, according to which the number is always 4.
fn reporting_queue(offered: balloon::F) -> u16 {
    let is_offered = |feature| u16::from(offered.contains(feature));
    FIRST_OPTIONAL_QUEUE + EARLIER_QUEUES.map(is_offered).iter().sum::<u16>()
}

/// Driver of a balloon device, which reports ranges of the type `R`.
#[derive(Debug)]
pub struct BalloonDriver<T: Transport, M, R> {
    device: Device<T>,
    queue: Virtqueue<M, Report<R>>,
    /// `inflateq` and `deflateq`. They are kept because the device may access their memory as long as it is
    /// live.
    _unused: [Virtqueue<M, Report<R>>; 2],
}

impl<T: Transport, M: DmaMemory, R: FreeMemory> BalloonDriver<T, M, R> {
    /// Initializes the device.
    ///
    /// # Errors
    ///
    /// The device is no balloon device, fails initialization, or there is no memory.
    /// [`InitError::MissingFeature`] if the device takes no reports.
    pub fn new(transport: T, dma: &impl DmaAllocator<Memory = M>) -> Result<Self, InitError> {
        // Section 5.5.3.1 asks for MUST_TELL_HOST, which an empty balloon never has to do.
        let wanted = F::from(balloon::F::PAGE_REPORTING | balloon::F::MUST_TELL_HOST);
        let mut device = Device::start(transport, dma, Id::Balloon, wanted)?;
        let offered = balloon::F::from(device.offered());
        if !offered.contains(balloon::F::PAGE_REPORTING) {
            return Err(InitError::MissingFeature);
        }
        // Section 5.5.5, step 1: Cloud Hypervisor and Firecracker do not activate a device without them.
        let unused = [device.setup_queue(dma, INFLATEQ, 1)?, device.setup_queue(dma, DEFLATEQ, 1)?];
        let queue = device.setup_queue(dma, reporting_queue(offered), 1)?;
        device.set_driver_ok();
        Ok(Self { device, queue, _unused: unused })
    }

    /// Reports a range to the device, which discards it. [`BalloonDriver::complete`] gives it back.
    ///
    /// # Errors
    ///
    /// Gives the range back if another range is in flight, or if the device has failed. A range is in flight
    /// until [`BalloonDriver::complete`] has given it back.
    pub fn report(&mut self, range: R) -> Result<(), R> {
        if self.queue.in_flight() != 0 {
            return Err(range);
        }
        // A device that has answered without a report in flight has failed: its answer would be taken for the
        // answer to this report.
        if !matches!(self.complete(), Ok(None)) {
            return Err(range);
        }
        self.queue.submit(Report(range)).map_err(|refused| refused.chain.0)?;
        self.queue.notify(self.device.transport());
        Ok(())
    }

    /// Gives back the range that the device has discarded. Returns `None` if no range is in flight, or if the
    /// device has not discarded it yet; then an interrupt follows.
    ///
    /// # Errors
    ///
    /// The device has failed. It keeps the range that is in flight.
    pub fn complete(&mut self) -> Result<Option<R>, DeviceError> {
        self.device.ensure_usable()?;
        let used = self.queue.complete_or_arm();
        Ok(self.device.checked(used)?.map(|used| used.chain.0))
    }

    /// Acknowledges an interrupt, after which the range may have been discarded.
    ///
    /// # Errors
    ///
    /// The device has failed.
    pub fn interrupt(&mut self) -> Result<InterruptCause, DeviceError> {
        let queue = &self.queue;
        self.device.interrupt(|| queue.has_used())
    }

    /// Stops a device that does not answer. The device keeps the range that is in flight.
    pub fn stop(&mut self) {
        self.device.stop(DeviceError::NeedsReset);
    }
}
