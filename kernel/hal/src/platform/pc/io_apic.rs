//! The I/O APICs (Intel 82093AA data sheet), for interrupts beyond the 16 lines of the 8259A.

use hermit_firmware::{IoApic, MAX_IO_APICS};
use hermit_interface::address::PAGE_SIZE;

use crate::arch::x86_64::trap::FIRST_LINE;
use crate::platform::native::register_page::RegisterPage;
use crate::platform::native::{apic, smp};
use crate::sync::SpinLock;

/// `IOREGSEL`, in words of 32 bits: the index of the register that [`WINDOW`] accesses.
const SELECT: usize = 0;
/// `IOWIN`, in words of 32 bits.
const WINDOW: usize = 4;

/// Index of the version register, whose bits 16 to 23 have the number of the last input.
const VERSION: u32 = 0x01;

/// Index of the low half of the first entry of the redirection table; the high half follows.
const REDIRECTION: u32 = 0x10;

/// Position of the destination in the high half: the identifier of a local APIC, of 8 bits.
const DESTINATION: u32 = 24;

/// The registers of each I/O APIC in the order of the firmware's tables.
static PAGES: [RegisterPage; MAX_IO_APICS] = [const { RegisterPage::new() }; MAX_IO_APICS];

/// Serialises the mapping of the registers and the accesses to them. An access needs the lock because it has
/// two steps: it writes the index, and then accesses [`WINDOW`].
static LOCK: SpinLock<()> = SpinLock::new(());

/// Connects a global system interrupt to a line of the first CPU: edge-triggered, active high, fixed
/// delivery. Returns false if no I/O APIC has the interrupt, or if the I/O APIC cannot address that CPU.
pub(super) fn connect(interrupt: u32, line: u8) -> bool {
    let destination = smp::apic_id(0);
    let Some(firmware) = smp::firmware().filter(|_| apic::has_message_address(destination)) else {
        return false;
    };
    let _guard = LOCK.lock();
    let Some((page, input)) = find(&firmware.io_apics, interrupt) else { return false };
    if input > read(page, VERSION) >> 16 & 0xff {
        return false;
    }
    let entry = REDIRECTION + 2 * input;
    // Writes the high half first, since writing the low half unmasks the input.
    write(page, entry + 1, destination << DESTINATION);
    write(page, entry, u32::from(FIRST_LINE + line));
    true
}

/// Finds the I/O APIC that has a global system interrupt. Returns its mapped registers and the number of the
/// interrupt's input. [`LOCK`] must be held, so that registers are mapped only once.
fn find(io_apics: &[IoApic], interrupt: u32) -> Option<(&'static RegisterPage, u32)> {
    let (index, input) = input_of(io_apics, interrupt)?;
    let address = io_apics.get(index)?.address;
    let page = PAGES.get(index)?;
    if !page.is_mapped() {
        if !address.is_multiple_of(PAGE_SIZE) {
            return None;
        }
        // SAFETY: according to the firmware's tables, the page has the registers of an I/O APIC; `map` fails
        // if there may be memory. The device does no DMA except interrupt messages, and this module writes
        // only entries that send vectors with handlers.
        unsafe { page.map(address) }.ok()?;
    }
    Some((page, input))
}

/// Finds the I/O APIC that has a global system interrupt: the one with the highest `gsi_base` that is not
/// above the interrupt. Returns its index, and the number of the interrupt's input.
fn input_of(io_apics: &[IoApic], interrupt: u32) -> Option<(usize, u32)> {
    let input = |(index, io_apic): (usize, &IoApic)| Some((index, interrupt.checked_sub(io_apic.gsi_base)?));
    io_apics.iter().enumerate().filter_map(input).min_by_key(|(_, input)| *input)
}

fn read(page: &RegisterPage, index: u32) -> u32 {
    page.write(SELECT, index);
    page.read(WINDOW)
}

fn write(page: &RegisterPage, index: u32, value: u32) {
    page.write(SELECT, index);
    page.write(WINDOW, value);
}

#[cfg(test)]
mod tests {
    use super::input_of;
    use hermit_firmware::IoApic;

    #[test]
    fn interrupt_belongs_to_the_io_apic_that_starts_last_below_it() {
        let io_apic = |gsi_base| IoApic { id: 0, address: 0xfec0_0000, gsi_base };
        let io_apics = [io_apic(24), io_apic(8)];
        assert_eq!(input_of(&io_apics, 24), Some((0, 0)));
        assert_eq!(input_of(&io_apics, 47), Some((0, 23)));
        assert_eq!(input_of(&io_apics, 23), Some((1, 15)));
        assert_eq!(input_of(&io_apics, 7), None);
        assert_eq!(input_of(&[], 7), None);
    }
}
