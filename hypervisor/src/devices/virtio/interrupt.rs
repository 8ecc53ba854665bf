//! How a device gets the guest's attention.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU32, Ordering};

use virtio_bindings::virtio_mmio::{VIRTIO_MMIO_INT_CONFIG, VIRTIO_MMIO_INT_VRING};
use vmm_sys_util::eventfd::EventFd;

/// An interrupt line, edge-triggered.
pub trait Interrupt: Debug + Send + Sync {
    /// Raises an interrupt.
    fn raise(&self);
}

impl Interrupt for EventFd {
    fn raise(&self) {
        // Fails only if the counter is full: then the interrupt is pending anyway.
        let _: std::io::Result<()> = self.write(1);
    }
}

/// Why there was an interrupt (virtio 1.2, section 4.2.2, `InterruptStatus`).
///
/// Not under the device's lock: a CPU must be able to handle an interrupt while the device waits for the host.
#[derive(Debug, Default)]
pub struct InterruptStatus(AtomicU32);

impl InterruptStatus {
    /// The device has used buffers.
    pub fn used_buffers(&self) {
        self.0.fetch_or(VIRTIO_MMIO_INT_VRING, Ordering::SeqCst);
    }

    /// The device's configuration or its status has changed.
    pub fn configuration_changed(&self) {
        self.0.fetch_or(VIRTIO_MMIO_INT_CONFIG, Ordering::SeqCst);
    }

    /// What the guest reads.
    #[must_use]
    pub fn read(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }

    /// The guest has handled these reasons.
    pub fn acknowledge(&self, reasons: u32) {
        self.0.fetch_and(!reasons, Ordering::SeqCst);
    }
}
