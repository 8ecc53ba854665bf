//! Interrupts of a device on the MMIO transport.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU32, Ordering};

use virtio_bindings::virtio_mmio::{VIRTIO_MMIO_INT_CONFIG, VIRTIO_MMIO_INT_VRING};
use vmm_sys_util::eventfd::EventFd;

/// An edge-triggered interrupt line.
pub trait Interrupt: Debug + Send + Sync {
    /// Raises an interrupt.
    fn raise(&self);
}

impl Interrupt for EventFd {
    fn raise(&self) {
        // Fails only if the counter is at its maximum. Then the interrupt is pending anyway.
        let _: std::io::Result<()> = self.write(1);
    }
}

/// The register `InterruptStatus`: reasons of pending interrupts (virtio 1.2 §4.2.2).
///
/// It is not behind the device's lock, so that a vCPU can handle an interrupt while the device waits for the
/// host.
#[derive(Debug, Default)]
pub struct InterruptStatus(AtomicU32);

impl InterruptStatus {
    /// Sets the bit of a used buffer notification.
    pub fn set_used_buffer(&self) {
        self.0.fetch_or(VIRTIO_MMIO_INT_VRING, Ordering::SeqCst);
    }

    /// Sets the bit of a configuration change notification.
    pub fn set_config_change(&self) {
        self.0.fetch_or(VIRTIO_MMIO_INT_CONFIG, Ordering::SeqCst);
    }

    /// Returns the value of the register.
    #[must_use]
    pub fn read(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }

    /// Clears the bits that the driver writes to `InterruptACK`.
    pub fn acknowledge(&self, bits: u32) {
        self.0.fetch_and(!bits, Ordering::SeqCst);
    }
}
