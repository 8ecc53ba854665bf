//! Operations on devices.

use core::fmt::{self, Debug, Formatter};
use core::ptr::NonNull;

use hermit_virtio::transport::pci::ConfigSpace;

use crate::fallible::OutOfMemory;

/// How software reaches the registers of a device.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RegisterAccess {
    /// By loads and stores: the registers are mapped at this address, uncached and permanently.
    Mapped(NonNull<u8>),
    /// By hypercalls: the platform has no mapping of device registers.
    Called {
        /// Makes the hypercalls.
        io: &'static dyn RegisterIo,
        /// Physical address of the first register.
        start: u64,
    },
}

/// Register accesses by hypercalls.
pub(crate) trait RegisterIo: Sync {
    /// Reads the register of `size` bytes (1, 2, 4 or 8) at a physical address.
    fn read(&self, address: u64, size: usize) -> u64;

    /// Writes the register of `size` bytes (1, 2, 4 or 8) at a physical address.
    fn write(&self, address: u64, size: usize, value: u64);
}

impl Debug for dyn RegisterIo {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("RegisterIo")
    }
}

/// Access to registers of devices and to the PCI configuration space.
pub(crate) trait DeviceAccess: Sync {
    /// Returns access to `size` bytes of device registers at a physical address. The access stays valid.
    /// Returns `None` if there may be memory at these addresses.
    ///
    /// # Errors
    ///
    /// There is no memory to map the registers.
    fn registers(&self, physical: u64, size: u64) -> Result<Option<RegisterAccess>, OutOfMemory>;

    /// The PCI configuration space, if there is a PCI host bridge.
    fn pci_config(&self) -> Option<&'static dyn ConfigSpace>;
}
