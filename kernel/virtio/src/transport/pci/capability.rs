//! The list of a function's capabilities: where its registers are (virtio 1.2, section 4.1.4).
//!
//! The list is the device's word: it may lead anywhere, in circles too. What it says is only a claim until the hal
//! maps it.

use super::config_space::{ConfigSpace, Function, register};

/// Capabilities are behind the header and at multiples of 4, so there cannot be more than this.
const MAX_CAPABILITIES: usize = (256 - 0x40) / 4;

/// Bit of the status register: there are capabilities.
const HAS_CAPABILITIES: u32 = 1 << (16 + 4);

/// Identifier of capabilities whose meaning is the vendor's.
const VENDOR_SPECIFIC: u8 = 0x9;

/// Identifier of the capability for MSI-X.
const MSIX: u8 = 0x11;

/// Kinds of virtio capabilities (virtio 1.2, section 4.1.4).
mod kind {
    pub(super) const COMMON: u8 = 1;
    pub(super) const NOTIFY: u8 = 2;
    pub(super) const ISR: u8 = 3;
    pub(super) const DEVICE: u8 = 4;
}

/// Where registers are: in the memory of a base address register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StructureLocation {
    pub(super) bar: u8,
    pub(super) offset: u32,
    pub(super) length: u32,
}

/// What the list says. Of several of one kind the first counts that can be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Capabilities {
    pub(super) common: Option<StructureLocation>,
    pub(super) notify: Option<StructureLocation>,
    /// Bytes from one queue's register for notifications to the next.
    pub(super) notify_multiplier: u32,
    pub(super) isr: Option<StructureLocation>,
    pub(super) device: Option<StructureLocation>,
    pub(super) msix: Option<Msix>,
}

/// What the capability for MSI-X says (PCI Local Bus 3.0, section 6.8.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Msix {
    /// Where the capability is.
    pub(super) capability: u8,
    pub(super) bar: u8,
    /// Where the table is.
    pub(super) table: u32,
}

impl Capabilities {
    /// Reads the list of a function.
    pub(super) fn read<S: ConfigSpace>(function: &Function<'_, S>) -> Self {
        let mut found = Self::default();
        if function.read(register::COMMAND) & HAS_CAPABILITIES == 0 {
            return found;
        }
        let [mut next, ..] = function.read(register::CAPABILITIES).to_le_bytes();
        for _ in 0..MAX_CAPABILITIES {
            let offset = next & !3;
            if offset < 0x40 {
                break;
            }
            let header = function.read(offset);
            found.add(function, offset, header);
            [_, next, ..] = header.to_le_bytes();
        }
        found
    }

    /// Adds a capability.
    fn add<S: ConfigSpace>(&mut self, function: &Function<'_, S>, offset: u8, header: u32) {
        match header.to_le_bytes() {
            [VENDOR_SPECIFIC, _, length, kind] => self.add_virtio(function, offset, length, kind),
            [MSIX, ..] if self.msix.is_none() => {
                let Some(table) = word(function, offset, 1) else { return };
                let [bar, ..] = table.to_le_bytes();
                self.msix = Some(Msix { capability: offset, bar: bar & 0b111, table: table & !0b111 });
            }
            _ => {}
        }
    }

    /// Adds a capability of virtio.
    fn add_virtio<S: ConfigSpace>(&mut self, function: &Function<'_, S>, offset: u8, length: u8, kind: u8) {
        let needed = if kind == kind::NOTIFY { 20 } else { 16 };
        if length < needed {
            return;
        }
        let slot = match kind {
            kind::COMMON => &mut self.common,
            kind::NOTIFY => &mut self.notify,
            kind::ISR => &mut self.isr,
            kind::DEVICE => &mut self.device,
            _ => return,
        };
        let Some(place) = StructureLocation::read(function, offset) else { return };
        // DeviceRegisters that are not in memory can stand beside others that are (section 4.1.4).
        if slot.is_some()
            || (kind != kind::ISR && place.offset % 4 != 0)
            || function.base_address(place.bar).is_none()
        {
            return;
        }
        if kind == kind::NOTIFY {
            let Some(multiplier) = word(function, offset, 4) else { return };
            self.notify_multiplier = multiplier;
        }
        *slot = Some(place);
    }
}

impl StructureLocation {
    /// What a capability of virtio says (section 4.1.4).
    fn read<S: ConfigSpace>(function: &Function<'_, S>, capability: u8) -> Option<Self> {
        let [bar, ..] = word(function, capability, 1)?.to_le_bytes();
        Some(Self { bar, offset: word(function, capability, 2)?, length: word(function, capability, 3)? })
    }
}

/// A 32-bit word of a capability; `None` if it would be behind the end of configuration space.
fn word<S: ConfigSpace>(function: &Function<'_, S>, capability: u8, index: u8) -> Option<u32> {
    Some(function.read(capability.checked_add(4 * index)?))
}

impl Msix {
    /// Bits of the capability's first word: MSI-X is used instead of the line; all vectors are masked.
    const ENABLE: u32 = 1 << 31;
    const MASK: u32 = 1 << 30;

    /// Switches it on or off.
    pub(super) fn enable<S: ConfigSpace>(self, function: &Function<'_, S>, enable: bool) {
        let word = function.read(self.capability) & !(Self::ENABLE | Self::MASK);
        function.write(self.capability, if enable { word | Self::ENABLE } else { word });
    }
}
