//! The configuration space of PCI by ports (PCI Local Bus 3.0, section 3.2.2.3.2).

use hermit_virtio::transport::pci::{ConfigSpace, PciAddress};
use x86_64::instructions::port::Port;

use crate::platform;
use crate::sync::SpinLock;

/// The register that chooses, and the one with what was chosen.
const ADDRESS: u16 = 0xcf8;
const DATA: u16 = 0xcfc;

/// Configuration space is meant.
const ENABLE: u32 = 1 << 31;

/// Held from choosing to access.
static CHOSEN: SpinLock<()> = SpinLock::new(());

/// The configuration space of the first PCI host.
#[derive(Clone, Copy, Debug)]
pub struct Ports(());

impl Ports {
    /// The ports, if there is a PCI host behind them: the register that chooses keeps what is written to it.
    #[must_use]
    pub fn find() -> Option<Self> {
        if !platform::current().is_privileged() {
            return None;
        }
        let _chosen = CHOSEN.lock();
        let mut address = Port::<u32>::new(ADDRESS);
        // SAFETY: the port chooses a register, or nothing listens.
        unsafe { address.write(ENABLE) };
        // SAFETY: as above.
        let kept = unsafe { address.read() };
        (kept == ENABLE).then_some(Self(()))
    }

    fn with_data<R>(address: PciAddress, offset: u8, access: impl FnOnce(&mut Port<u32>) -> R) -> R {
        let _chosen = CHOSEN.lock();
        let function = u32::from(address.bus) << 16
            | u32::from(address.slot & 0x1f) << 11
            | u32::from(address.function & 7) << 8;
        // SAFETY: the port chooses a register.
        unsafe { Port::new(ADDRESS).write(ENABLE | function | u32::from(offset & 0xfc)) };
        access(&mut Port::new(DATA))
    }
}

impl ConfigSpace for Ports {
    fn read(&self, address: PciAddress, offset: u8) -> u32 {
        // SAFETY: reading configuration space affects nothing.
        Self::with_data(address, offset, |data| unsafe { data.read() })
    }

    fn write(&self, address: PciAddress, offset: u8, value: u32) {
        // SAFETY: drivers write only to functions that are theirs, and move no device onto memory.
        Self::with_data(address, offset, |data| unsafe { data.write(value) });
    }
}
