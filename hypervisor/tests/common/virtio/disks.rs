//! Block requests that a guest may not make.

use iced_x86::code_asm::{al, byte_ptr, r15};

use super::driver::{BUFFERS, Driver, NEXT, Queue, Rings, WRITE};
use super::{Assembled, Machine};

/// Size of the disk in sectors of 512 bytes.
pub(crate) const SECTORS: u8 = 8;

const HEADER: u32 = BUFFERS + 0x1000;
const STATUS: u32 = BUFFERS + 0x1100;
/// Data whose bytes differ from those of the disk images.
const DATA: u32 = BUFFERS + 0x2000;

/// Request type and status bytes (virtio 1.2 §5.2.6).
const OUT: u32 = 1;
const OK: u8 = 0;
const IO_ERROR: u8 = 1;
const NO_STATUS: u8 = 0xee;

/// Sends a request of this type for `sector`, with `length` bytes at [`DATA`]. Leaves the status in al.
fn request(driver: &mut Driver<'_, impl Machine>, request_type: u32, sector: u64, length: u32) -> Assembled {
    driver.clear(BUFFERS, 0x600)?;
    driver.write64(HEADER, request_type.into())?;
    driver.write64(HEADER + 8, sector)?;
    driver.write16(STATUS, NO_STATUS.into())?;
    let chain = [(HEADER.into(), 16, NEXT, 1), (DATA.into(), length, NEXT, 2), (STATUS.into(), 1, WRITE, 0)];
    driver.describe(BUFFERS, &chain)?;
    driver.set_up(Queue::DISK, Rings::at(BUFFERS))?;
    driver.offer(Queue::DISK, BUFFERS, &[0], 1)?;
    driver.wait_for(BUFFERS, 1)?;
    driver.0.code().mov(al, byte_ptr(r15 + STATUS))
}

/// Exits with 100 plus the status in al, unless this status is `expected`.
fn expect(driver: &mut Driver<'_, impl Machine>, expected: u8) -> Assembled {
    let mut equal = driver.0.code().create_label();
    driver.0.code().cmp(al, u32::from(expected))?;
    driver.0.code().je(equal)?;
    driver.0.code().add(al, 100)?;
    driver.0.exit_with_al()?;
    driver.0.code().set_label(&mut equal)?;
    driver.0.code().nop()
}

/// Writes the eight bytes 0xff, and zeros after them, to sector 3.
pub(crate) fn write(driver: &mut Driver<'_, impl Machine>) -> Assembled {
    driver.clear(DATA, 512)?;
    driver.write64(DATA, u64::MAX)?;
    request(driver, OUT, 3, 512)?;
    expect(driver, OK)
}

/// Returns the contents of the disk after [`write`]. `original` is the contents before.
pub(crate) fn written(original: &[u8]) -> Vec<u8> {
    let mut expected = original.to_vec();
    expected[3 * 512..4 * 512].fill(0);
    expected[3 * 512..][..8].fill(0xff);
    expected
}

/// Writes that fail on a read-only disk: sector, and length in bytes.
pub(crate) const DENIED: &[(u64, u32)] = &[(0, 512), (7, 512), (0, 4096), (8, 512)];

/// Writes that fail on any disk of [`SECTORS`]: sector, and length in bytes.
pub(crate) const INVALID: &[(u64, u32)] = &[
    (SECTORS as u64, 512),
    (SECTORS as u64 + 1, 512),
    (1 << 31, 512),
    (1 << 32, 512),
    (1 << 54, 512),
    (1 << 55, 512),
    (1 << 63, 512),
    (u64::MAX, 512),
    (7, 1024),
    (1, 4096),
    (0, 1 << 20),
    (0, 511),
    (0, 513),
    (u64::MAX, 1024),
];

/// Makes these writes, which must fail.
pub(crate) fn failing_writes(driver: &mut Driver<'_, impl Machine>, writes: &[(u64, u32)]) -> Assembled {
    driver.clear(DATA, 4096)?;
    writes.iter().try_for_each(|&(sector, length)| {
        request(driver, OUT, sector, length)?;
        expect(driver, IO_ERROR)
    })
}

/// Makes requests that the device does not support, such as discard (11), write zeroes (13) and undefined
/// types. Exits with 3 if one of them succeeds.
pub(crate) fn unsupported(driver: &mut Driver<'_, impl Machine>) -> Assembled {
    for request_type in [2, 3, 11, 13, 14, 15, 16, 24, 0x8000_0000, u32::MAX] {
        let mut refused = driver.0.code().create_label();
        request(driver, request_type, 0, 512)?;
        driver.0.code().cmp(al, u32::from(OK))?;
        driver.0.code().jne(refused)?;
        driver.exit(3)?;
        driver.0.code().set_label(&mut refused)?;
    }
    driver.0.code().nop()
}
