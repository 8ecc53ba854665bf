//! The power button: either a part of ACPI's fixed hardware (ACPI 6.5, section 4.8), or an event of QEMU's
//! `microvm`.

use hermit_firmware::{AcpiMode, FixedPowerButton, MICROVM_EVENT_INTERRUPT, PowerButton};
use hermit_interface::address::PAGE_SIZE;

use crate::arch::x86_64::port::Register;
use crate::platform::native::register_page::RegisterPage;
use crate::platform::native::smp;

/// `PWRBTN_STS` and `PWRBTN_EN`, in the PM1 status and enable registers. Writing the status bit clears it.
const BUTTON: u16 = 1 << 8;

/// `SCI_EN` in the PM1 control register: the hardware is in ACPI mode.
const ACPI_MODE: u16 = 1 << 0;

/// Maximum number of readings of the control register while the firmware switches to ACPI mode.
const MAX_READINGS: u32 = 100_000;

/// Event of the power button in the selector of the Generic Event Device (`ACPI_GED_PWR_DOWN_EVT` of QEMU).
/// Reading the selector clears it.
const POWER_DOWN_EVENT: u32 = 1 << 1;

/// The registers of the Generic Event Device, once the button is enabled.
static EVENTS: RegisterPage = RegisterPage::new();

/// A register of the power management.
fn register<T>(port: u16) -> Register<T>
where
    T: x86_64::structures::port::PortRead + x86_64::structures::port::PortWrite,
{
    // SAFETY: according to the firmware's tables, a register of the power management is at the port. It does
    // no DMA. The values that the callers write only enable and clear events, and do not enter a sleep state.
    unsafe { Register::new(port) }
}

fn find() -> Option<PowerButton> {
    smp::firmware()?.power_button
}

/// Interrupt line of the button, a line of the 8259A.
pub(super) fn line() -> Option<u8> {
    find().map(|button| match button {
        PowerButton::Fixed(button) => button.interrupt,
        PowerButton::Event(_) => MICROVM_EVENT_INTERRUPT,
    })
}

/// Enables the interrupt of the button, and discards earlier presses.
pub(super) fn enable() {
    match find() {
        Some(PowerButton::Fixed(button)) => enable_fixed(&button),
        Some(PowerButton::Event(selector)) if selector.is_multiple_of(PAGE_SIZE) => {
            // SAFETY: according to the firmware's tables, this is QEMU's `microvm`, whose Generic Event
            // Device has its registers there. The only access is a read of the selector, which clears events.
            // If the mapping fails, the button has no effect.
            let _: Result<(), _> = unsafe { EVENTS.map(selector) };
        }
        _ => {}
    }
}

fn enable_fixed(button: &FixedPowerButton) {
    if let Some(AcpiMode { command, value, control }) = button.acpi_mode {
        let control = register::<u16>(control);
        if control.read() & ACPI_MODE == 0 {
            register::<u8>(command).write(value);
            // If the firmware does not switch, the button has no effect.
            let _switched = (0..MAX_READINGS).any(|_| control.read() & ACPI_MODE != 0);
        }
    }
    register::<u16>(button.status).write(BUTTON);
    let enable = register::<u16>(button.enable);
    enable.write(enable.read() | BUTTON);
}

/// Returns true if the button was pressed since the last call.
pub(super) fn take_press() -> bool {
    match find() {
        Some(PowerButton::Fixed(button)) => {
            let status = register::<u16>(button.status);
            let is_pressed = status.read() & BUTTON != 0;
            if is_pressed {
                status.write(BUTTON);
            }
            is_pressed
        }
        Some(PowerButton::Event(_)) => EVENTS.is_mapped() && EVENTS.read(0) & POWER_DOWN_EVENT != 0,
        None => false,
    }
}
