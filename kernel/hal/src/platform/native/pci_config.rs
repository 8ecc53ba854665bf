//! PCI configuration space by ports: configuration mechanism #1 (PCI Local Bus 3.0, section 3.2.2.3.2).

use hermit_virtio::transport::pci::{ConfigSpace, PciAddress};

use crate::arch::x86_64::port::Register;
use crate::sync::SpinLock;

/// `CONFIG_ADDRESS`: selects a register of a function.
const CONFIG_ADDRESS: Register<u32> = {
    // SAFETY: the port selects a register and has no other effect.
    unsafe { Register::new(0xcf8) }
};

/// `CONFIG_DATA`: the selected register.
const CONFIG_DATA: Register<u32> = {
    // SAFETY: only `PortConfig::write` writes to the port. Its callers, the drivers of `hermit_virtio`, write
    // only to registers of their own functions, and map no device over memory.
    unsafe { Register::new(0xcfc) }
};

/// Enable bit of `CONFIG_ADDRESS`.
const ENABLE: u32 = 1 << 31;

/// Held between the selection of a register and the access to it.
static SELECTED: SpinLock<()> = SpinLock::new(());

/// Configuration space that is accessed through the two ports.
#[derive(Debug)]
pub(super) struct PortConfig;

/// Returns true if there is a host bridge: then `CONFIG_ADDRESS` keeps a written value.
pub(super) fn is_present() -> bool {
    let _selected = SELECTED.lock();
    CONFIG_ADDRESS.write(ENABLE);
    CONFIG_ADDRESS.read() == ENABLE
}

fn with_data<R>(address: PciAddress, offset: u8, access: impl FnOnce(Register<u32>) -> R) -> R {
    let _selected = SELECTED.lock();
    let function = u32::from(address.bus) << 16
        | u32::from(address.slot & 0x1f) << 11
        | u32::from(address.function & 7) << 8;
    CONFIG_ADDRESS.write(ENABLE | function | u32::from(offset & 0xfc));
    access(CONFIG_DATA)
}

impl ConfigSpace for PortConfig {
    fn read(&self, address: PciAddress, offset: u8) -> u32 {
        with_data(address, offset, |data| data.read())
    }

    fn write(&self, address: PciAddress, offset: u8, value: u32) {
        with_data(address, offset, |data| data.write(value));
    }
}
