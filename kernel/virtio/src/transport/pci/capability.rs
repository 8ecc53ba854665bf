//! The capability list of a PCI function: location of the virtio structures (virtio 1.2, section 4.1.4).
//!
//! The list is untrusted: links may be arbitrary and form cycles. The hal validates the locations when it
//! maps the structures.

use super::config_space::{ConfigSpace, Function, register};

/// Maximum number of capabilities: they follow the 64-byte header, at multiples of 4.
const MAX_CAPABILITIES: usize = (256 - 0x40) / 4;

/// Bit of the status register: the function has a capability list.
const HAS_CAPABILITIES: u32 = 1 << (16 + 4);

/// Capability ID of vendor-specific capabilities, such as those of virtio.
const VENDOR_SPECIFIC: u8 = 0x9;

/// Capability ID of MSI-X.
const MSIX: u8 = 0x11;

/// Values of `cfg_type` in virtio capabilities (virtio 1.2, section 4.1.4).
mod cfg_type {
    pub(super) const COMMON: u8 = 1;
    pub(super) const NOTIFY: u8 = 2;
    pub(super) const ISR: u8 = 3;
    pub(super) const DEVICE: u8 = 4;
}

/// Location of a structure: BAR, offset in the BAR, and length in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StructureLocation {
    pub(super) bar: u8,
    pub(super) offset: u32,
    pub(super) length: u32,
}

/// The usable capabilities of a function. If there are several of one type, the first one counts (section
/// 4.1.4.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Capabilities {
    pub(super) common: Option<StructureLocation>,
    pub(super) notify: Option<StructureLocation>,
    /// `notify_off_multiplier`: distance of two virtqueues' notification registers, in bytes.
    pub(super) notify_multiplier: u32,
    pub(super) isr: Option<StructureLocation>,
    pub(super) device: Option<StructureLocation>,
    pub(super) msix: Option<Msix>,
}

/// The MSI-X capability (PCI Local Bus 3.0, section 6.8.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Msix {
    /// Offset of the capability in configuration space.
    pub(super) capability: u8,
    pub(super) bar: u8,
    /// Offset of the MSI-X table in the BAR.
    pub(super) table: u32,
}

impl Capabilities {
    /// Reads the capability list of a function.
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

    /// Records a capability, if it is virtio's or MSI-X.
    fn add<S: ConfigSpace>(&mut self, function: &Function<'_, S>, offset: u8, header: u32) {
        match header.to_le_bytes() {
            [VENDOR_SPECIFIC, _, length, cfg_type] => self.add_virtio(function, offset, length, cfg_type),
            [MSIX, ..] if self.msix.is_none() => {
                let Some(table) = word(function, offset, 1) else { return };
                let [bar, ..] = table.to_le_bytes();
                self.msix = Some(Msix { capability: offset, bar: bar & 0b111, table: table & !0b111 });
            }
            _ => {}
        }
    }

    /// Records a virtio capability.
    fn add_virtio<S: ConfigSpace>(
        &mut self,
        function: &Function<'_, S>,
        offset: u8,
        length: u8,
        cfg_type: u8,
    ) {
        let needed = if cfg_type == cfg_type::NOTIFY { 20 } else { 16 };
        if length < needed {
            return;
        }
        let slot = match cfg_type {
            cfg_type::COMMON => &mut self.common,
            cfg_type::NOTIFY => &mut self.notify,
            cfg_type::ISR => &mut self.isr,
            cfg_type::DEVICE => &mut self.device,
            _ => return,
        };
        let Some(location) = StructureLocation::read(function, offset) else { return };
        // The list may contain structures in I/O space in addition to those in memory space (section 4.1.4).
        // Skips them.
        if slot.is_some()
            || (cfg_type != cfg_type::ISR && location.offset % 4 != 0)
            || function.base_address(location.bar).is_none()
        {
            return;
        }
        if cfg_type == cfg_type::NOTIFY {
            let Some(multiplier) = word(function, offset, 4) else { return };
            self.notify_multiplier = multiplier;
        }
        *slot = Some(location);
    }
}

impl StructureLocation {
    /// Reads `bar`, `offset` and `length` of a virtio capability (section 4.1.4).
    fn read<S: ConfigSpace>(function: &Function<'_, S>, capability: u8) -> Option<Self> {
        let [bar, ..] = word(function, capability, 1)?.to_le_bytes();
        Some(Self { bar, offset: word(function, capability, 2)?, length: word(function, capability, 3)? })
    }
}

/// Reads a 32-bit word of a capability; `None` after the end of configuration space.
fn word<S: ConfigSpace>(function: &Function<'_, S>, capability: u8, index: u8) -> Option<u32> {
    Some(function.read(capability.checked_add(4 * index)?))
}

impl Msix {
    /// Bits of the capability's first word: MSI-X Enable and Function Mask.
    const ENABLE: u32 = 1 << 31;
    const MASK: u32 = 1 << 30;

    /// Enables or disables MSI-X, with Function Mask clear.
    pub(super) fn enable<S: ConfigSpace>(self, function: &Function<'_, S>, enable: bool) {
        let word = function.read(self.capability) & !(Self::ENABLE | Self::MASK);
        function.write(self.capability, if enable { word | Self::ENABLE } else { word });
    }
}
