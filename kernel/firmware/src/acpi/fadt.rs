//! The fixed ACPI description table (FADT): PM1a and reset registers, and the power button (section 5.2.9).

use zerocopy::little_endian::{U16, U32};

use super::GenericAddress;
use crate::reader::FirmwareTable;
use crate::{AcpiMode, FixedPowerButton, ISA_INTERRUPTS, PowerButton, Reset};

/// Signature of the table.
pub(super) const SIGNATURE: [u8; 4] = *b"FACP";

/// Offset of `SCI_INT`, the interrupt of power events.
const SCI_INTERRUPT: u32 = 46;

/// Offset of `SMI_CMD`, the port of the command register.
const SMI_COMMAND: u32 = 48;

/// Offset of `ACPI_ENABLE`, a byte.
const ACPI_ENABLE: u32 = 52;

/// Offset of `PM1a_EVT_BLK`, the port of the PM1a event registers: status, followed by enable.
const PM1A_EVENT: u32 = 56;

/// Offset of `PM1_EVT_LEN`, the size of both event registers in bytes.
const PM1_EVENT_SIZE: u32 = 88;

/// Offset of `X_PM1a_EVT_BLK`, a generic address that replaces [`PM1A_EVENT`] if it is not zero.
const EXTENDED_PM1A_EVENT: u32 = 148;

/// Offset of `SLEEP_CONTROL_REG`, a generic address.
const SLEEP_CONTROL: u32 = 244;

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

/// Flag `PWR_BUTTON`: there is no fixed power button.
const PWR_BUTTON: u32 = 1 << 4;

/// Flag `RESET_REG_SUP`: the reset register is supported.
const RESET_REG_SUP: u32 = 1 << 10;

/// Flag `HW_REDUCED_ACPI`: the platform has no PM1 registers.
const HW_REDUCED_ACPI: u32 = 1 << 20;

/// Physical address of the sleep control register of QEMU's `microvm` (`GED_MMIO_BASE_REGS`).
const MICROVM_SLEEP_CONTROL: u64 = MICROVM_EVENT_SELECTOR + 0x200;

/// Physical address of the event selector of QEMU's `microvm` (`GED_MMIO_BASE`). Of the tables, only AML
/// contains it.
const MICROVM_EVENT_SELECTOR: u64 = 0xfea0_0000;

/// I/O port of the PM1a control register, if it is in I/O space.
pub(super) fn pm1a_control(table: FirmwareTable<'_>) -> Option<u16> {
    pm1_block(table, PM1A_CONTROL, EXTENDED_PM1A_CONTROL)
}

/// I/O port of a block of PM1 registers, if it is in I/O space.
fn pm1_block(table: FirmwareTable<'_>, offset: u32, extended: u32) -> Option<u16> {
    if flags(table) & HW_REDUCED_ACPI != 0 {
        return None;
    }
    let extended = table.get::<GenericAddress>(extended).filter(|field| field.address != 0);
    if let Some(extended) = extended {
        return extended.port();
    }
    let port = u16::try_from(table.get::<U32>(offset)?.get()).ok()?;
    (port != 0).then_some(port)
}

/// The power button of the fixed hardware or of QEMU's `microvm`. The hardware-reduced ACPI of `microvm`
/// describes events only in AML, so this recognises the machine by the address of its sleep control register.
pub(super) fn power_button(table: FirmwareTable<'_>) -> Option<PowerButton> {
    if flags(table) & HW_REDUCED_ACPI != 0 {
        let sleep_control = table.get::<GenericAddress>(SLEEP_CONTROL)?.memory()?;
        return (sleep_control == MICROVM_SLEEP_CONTROL)
            .then_some(PowerButton::Event(MICROVM_EVENT_SELECTOR));
    }
    if flags(table) & PWR_BUTTON != 0 {
        return None;
    }
    let interrupt = table.get::<U16>(SCI_INTERRUPT)?.get().to_le_bytes();
    let interrupt =
        (interrupt[1] == 0 && usize::from(interrupt[0]) < ISA_INTERRUPTS).then_some(interrupt[0])?;
    let status = pm1_block(table, PM1A_EVENT, EXTENDED_PM1A_EVENT)?;
    let size = table.get::<u8>(PM1_EVENT_SIZE).filter(|&size| size >= 4)?;
    let enable = status.checked_add(u16::from(size / 2))?;
    Some(PowerButton::Fixed(FixedPowerButton { interrupt, status, enable, acpi_mode: acpi_mode(table) }))
}

fn acpi_mode(table: FirmwareTable<'_>) -> Option<AcpiMode> {
    let command = u16::try_from(table.get::<U32>(SMI_COMMAND)?.get()).ok().filter(|&port| port != 0)?;
    Some(AcpiMode { command, value: table.get(ACPI_ENABLE)?, control: pm1a_control(table)? })
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
