//! The HPET description table (IA-PC HPET specification 1.0a, section 3.2.4).

use super::GenericAddress;
use super::root::HEADER_SIZE;
use crate::reader::FirmwareTable;

/// Signature of the table.
pub(super) const SIGNATURE: [u8; 4] = *b"HPET";

/// Offset of `BASE_ADDRESS`, a generic address, after the event timer block ID.
const BASE_ADDRESS: u32 = HEADER_SIZE + 4;

/// Physical address of the timer's registers.
pub(super) fn address(table: FirmwareTable<'_>) -> Option<u64> {
    table.get::<GenericAddress>(BASE_ADDRESS)?.memory()
}
