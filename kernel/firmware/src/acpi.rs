//! The tables of the Advanced Configuration and Power Interface, version 6.5.

mod fadt;
mod hpet;
mod madt;
mod root;

use crate::{PhysicalMemory, PlatformInfo};

/// What the tables say; `None` if there are none or they do not mention a processor.
pub(crate) fn platform_info(memory: &dyn PhysicalMemory, rsdp: Option<u64>) -> Option<PlatformInfo> {
    let root = root::Root::find(memory, rsdp)?;
    let mut machine = root.table(madt::SIGNATURE).and_then(madt::platform_info)?;
    machine.hpet = root.table(hpet::SIGNATURE).and_then(hpet::address);
    if let Some(fadt) = root.table(fadt::SIGNATURE) {
        machine.pm1a_control = fadt::pm1a_control(fadt);
        machine.reset = fadt::reset(fadt);
    }
    Some(machine)
}

/// A generic address: where a register is (section 5.2.3.2).
#[derive(Clone, Copy, zerocopy::FromBytes, zerocopy::IntoBytes)]
#[repr(C)]
struct GenericAddress {
    /// In which address space: [`SYSTEM_MEMORY`], [`SYSTEM_IO`], others.
    space: u8,
    _bit_width: u8,
    _bit_offset: u8,
    _access_size: u8,
    /// Where in it.
    address: zerocopy::little_endian::U64,
}

/// The address space of physical memory.
const SYSTEM_MEMORY: u8 = 0;

/// The address space of I/O ports.
const SYSTEM_IO: u8 = 1;

impl GenericAddress {
    /// The I/O port that it means, if it means one. Port 0 stands for no register.
    fn port(&self) -> Option<u16> {
        let port = u16::try_from(self.address.get()).ok()?;
        (self.space == SYSTEM_IO && port != 0).then_some(port)
    }

    /// The physical address that it means, if it means one. Address 0 stands for no register.
    fn memory(&self) -> Option<u64> {
        let address = self.address.get();
        (self.space == SYSTEM_MEMORY && address != 0).then_some(address)
    }
}
