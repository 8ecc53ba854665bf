//! The MMIO transport of virtio devices (virtio 1.2 §4.2).
//!
//! [`MmioRegisters`] is the register state machine, without locks, threads or file descriptors.
//! [`MmioTransport`] puts it on the bus: it adds the lock, the eventfds of the driver's notifications, and
//! the interrupt line.

mod interrupt;
mod registers;
mod transport;

pub use self::interrupt::{Interrupt, InterruptStatus};
pub use self::registers::{MmioRegisters, ServeOutcome};
pub use self::transport::MmioTransport;
