//! The fixed ACPI description table (FADT): PM1a control and reset registers (section 5.2.9).

use zerocopy::little_endian::U32;

use super::GenericAddress;
use crate::Reset;
use crate::reader::FirmwareTable;

/// Signature of the table.
pub(super) const SIGNATURE: [u8; 4] = *b"FACP";

/// Offset of `PM1a_CNT_BLK`, the port of the PM1a control register.
const PM1A_CONTROL: u32 = 64;

/// Offset of `Flags`.
const FLAGS: u32 = 112;

/// Offset of `RESET_REG`, a generic address.
const RESET_REGISTER: u32 = 116;

/// Offset of `RESET_VALUE`, a byte.
const RESET_VALUE: u32 = 128;

/// Offset of `X_PM1a_CNT_BLK`, a generic address that replaces [`PM1A_CONTROL`] if it is not zero.
const EXTENDED_PM1A_CONTROL: u32 = 172;

/// Flag `RESET_REG_SUP`: the reset register is supported.
const RESET_REG_SUP: u32 = 1 << 10;

/// Flag `HW_REDUCED_ACPI`: the platform has no PM1 registers.
const HW_REDUCED_ACPI: u32 = 1 << 20;

/// I/O port of the PM1a control register, if it is in I/O space.
pub(super) fn pm1a_control(table: FirmwareTable<'_>) -> Option<u16> {
    if flags(table) & HW_REDUCED_ACPI != 0 {
        return None;
    }
    let extended = table.get::<GenericAddress>(EXTENDED_PM1A_CONTROL).filter(|field| field.address != 0);
    if let Some(extended) = extended {
        return extended.port();
    }
    let port = u16::try_from(table.get::<U32>(PM1A_CONTROL)?.get()).ok()?;
    (port != 0).then_some(port)
}

/// The reset register, if it is in I/O space.
pub(super) fn reset(table: FirmwareTable<'_>) -> Option<Reset> {
    if flags(table) & RESET_REG_SUP == 0 {
        return None;
    }
    let port = table.get::<GenericAddress>(RESET_REGISTER)?.port()?;
    Some(Reset { port, value: table.get(RESET_VALUE)? })
}

fn flags(table: FirmwareTable<'_>) -> u32 {
    table.get(FLAGS).map_or(0, U32::get)
}
