//! The description table of the high precision event timer (IA-PC HPET specification 1.0a, section 3.2.4).

use super::GenericAddress;
use super::root::HEADER_SIZE;
use crate::reader::Table;

/// Begins the table.
pub(super) const SIGNATURE: [u8; 4] = *b"HPET";

/// Where the address of the registers stands: behind the identifier of the hardware.
const ADDRESS: u32 = HEADER_SIZE + 4;

/// The physical address of the timer's registers.
pub(super) fn address(table: Table<'_>) -> Option<u64> {
    table.get::<GenericAddress>(ADDRESS)?.memory()
}
