//! PCI configuration space.

use hermit_virtio::transport::pci::{ConfigSpace, PciAddress};

use crate::ops;

/// The configuration space of the first PCI host bridge.
#[derive(Clone, Copy, Debug)]
pub(super) struct PciConfig(&'static dyn ConfigSpace);

impl PciConfig {
    /// The configuration space, if there is a host bridge.
    pub(super) fn find() -> Option<Self> {
        ops::device_access().pci_config().map(Self)
    }
}

impl ConfigSpace for PciConfig {
    fn read(&self, address: PciAddress, offset: u8) -> u32 {
        self.0.read(address, offset)
    }

    fn write(&self, address: PciAddress, offset: u8, value: u32) {
        self.0.write(address, offset, value);
    }
}
