//! The tables of the Advanced Configuration and Power Interface, version 6.5.

mod fadt;
mod hpet;
mod madt;
mod root;

use crate::{PhysicalMemory, PlatformInfo};

/// Reads the ACPI tables; `None` without tables or without an enabled processor.
pub(crate) fn platform_info(memory: &dyn PhysicalMemory, rsdp: Option<u64>) -> Option<PlatformInfo> {
    let root = root::Root::find(memory, rsdp)?;
    let mut info = root.table(madt::SIGNATURE).and_then(madt::platform_info)?;
    info.hpet = root.table(hpet::SIGNATURE).and_then(hpet::address);
    if let Some(fadt) = root.table(fadt::SIGNATURE) {
        info.pm1a_control = fadt::pm1a_control(fadt);
        info.reset = fadt::reset(fadt);
        info.power_button = fadt::power_button(fadt);
    }
    Some(info)
}

/// Generic address structure (GAS): the location of a register (section 5.2.3.2).
#[derive(Clone, Copy, zerocopy::FromBytes, zerocopy::IntoBytes)]
#[repr(C)]
struct GenericAddress {
    /// Address space ID: [`SYSTEM_MEMORY`], [`SYSTEM_IO`] or others.
    address_space_id: u8,
    _bit_width: u8,
    _bit_offset: u8,
    _access_size: u8,
    /// Address in the address space.
    address: zerocopy::little_endian::U64,
}

/// Address space ID of physical memory.
const SYSTEM_MEMORY: u8 = 0;

/// Address space ID of I/O ports.
const SYSTEM_IO: u8 = 1;

impl GenericAddress {
    /// The I/O port, if the register is one. Port 0 means no register.
    fn port(&self) -> Option<u16> {
        let port = u16::try_from(self.address.get()).ok()?;
        (self.address_space_id == SYSTEM_IO && port != 0).then_some(port)
    }

    /// The physical address, if the register is in memory. Address 0 means no register.
    fn memory(&self) -> Option<u64> {
        let address = self.address.get();
        (self.address_space_id == SYSTEM_MEMORY && address != 0).then_some(address)
    }
}
