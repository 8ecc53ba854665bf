//! Block requests outside a guest's rights.

use iced_x86::code_asm::{al, byte_ptr, rbx, rcx};

use crate::driver::{NEXT, Queue, Rings, WRITE};
use crate::guest::{Assembled, BUFFERS, GuestBuilder};
use crate::host::Host;

const SECTORS: u8 = 8;
const RINGS: Rings = Rings::at(BUFFERS);
const HEADER: u64 = BUFFERS + 0x1000;
const STATUS: u64 = BUFFERS + 0x1100;
/// Data whose bytes differ from those of the disk images.
const DATA: u64 = BUFFERS + 0x2000;

/// Request type and status bytes (virtio 1.2 §5.2.6).
const OUT: u32 = 1;
const OK: u8 = 0;
const IO_ERROR: u8 = 1;
const NO_STATUS: u8 = 0xee;

/// Sends a request of this type with `length` bytes at [`DATA`] for `sector`; leaves the status in al.
fn request(guest: &mut GuestBuilder, request_type: u32, sector: u64, length: u32) -> Assembled {
    guest.clear(BUFFERS, 0x600)?;
    guest.write64(HEADER, request_type.into())?;
    guest.write64(HEADER + 8, sector)?;
    guest.write16(STATUS, NO_STATUS.into())?;
    let chain = [(HEADER, 16, NEXT, 1), (DATA, length, NEXT, 2), (STATUS, 1, WRITE, 0)];
    guest.describe(RINGS.descriptors, &chain)?;
    guest.set_up(Queue::DISK, RINGS)?;
    guest.offer(Queue::DISK, RINGS, &[0], 1)?;
    guest.wait_for(RINGS, 1)?;
    guest.code.mov(rbx, STATUS)?;
    guest.code.mov(al, byte_ptr(rbx))
}

/// Exits with 100 plus the status in al, unless that is `expected`.
fn expect(guest: &mut GuestBuilder, expected: u8) -> Assembled {
    let mut equal = guest.code.create_label();
    guest.code.cmp(al, u32::from(expected))?;
    guest.code.je(equal)?;
    guest.code.add(al, 100)?;
    guest.exit_with_al()?;
    guest.code.set_label(&mut equal)?;
    guest.code.mov(rcx, 0u64)
}

/// Exit status of a guest that has executed all its instructions.
const DONE: u8 = 42;

#[test]
fn write_changes_its_sector_only() {
    let Some(mut host) = Host::new() else { return };
    let (disk, sibling) = (host.disk("disk", SECTORS), host.disk("sibling", SECTORS));
    host.option(&format!("--block={}", disk.name()));
    let write = |guest: &mut GuestBuilder| {
        guest.write64(DATA, u64::MAX)?;
        request(guest, OUT, 3, 512)?;
        expect(guest, OK)
    };
    assert_eq!(host.run(&GuestBuilder::image(DONE, write)), DONE.into());
    let mut expected = disk.original().to_vec();
    expected[3 * 512..4 * 512].fill(0);
    expected[3 * 512..][..8].fill(0xff);
    assert!(disk.current() == expected);
    assert!(sibling.is_unchanged());
}

/// Asserts that writes of these lengths in bytes to these sectors fail and change no file.
fn assert_writes_fail(access: &str, requests: &[(u64, u32)]) {
    let Some(mut host) = Host::new() else { return };
    let (disk, sibling) = (host.disk("disk", SECTORS), host.disk("sibling", SECTORS));
    host.option(&format!("--block={}{access}", disk.name()));
    let write = |guest: &mut GuestBuilder| {
        requests.iter().try_for_each(|&(sector, length)| {
            request(guest, OUT, sector, length)?;
            expect(guest, IO_ERROR)
        })
    };
    assert_eq!(host.run(&GuestBuilder::image(DONE, write)), DONE.into());
    assert!(disk.is_unchanged() && sibling.is_unchanged());
}

#[test]
fn write_to_a_read_only_disk_fails() {
    assert_writes_fail(":ro", &[(0, 512), (7, 512), (0, 4096), (8, 512)]);
}

#[test]
fn write_beyond_the_end_of_a_disk_fails() {
    let beyond = u64::from(SECTORS);
    let sectors = [beyond, beyond + 1, 1 << 31, 1 << 32, 1 << 54, 1 << 55, 1 << 63, u64::MAX];
    assert_writes_fail("", &sectors.map(|sector| (sector, 512)));
    assert_writes_fail("", &[(7, 1024), (1, 4096), (0, 1 << 20), (0, 511), (0, 513), (u64::MAX, 1024)]);
}

/// Discard (11), write zeroes (13) and undefined types: the status is any but OK.
#[test]
fn unsupported_requests_fail_and_change_nothing() {
    let Some(mut host) = Host::new() else { return };
    let disk = host.disk("disk", SECTORS);
    host.option(&format!("--block={}", disk.name()));
    let write = |guest: &mut GuestBuilder| {
        for request_type in [2, 3, 11, 13, 14, 15, 16, 24, 0x8000_0000, u32::MAX] {
            let mut refused = guest.code.create_label();
            request(guest, request_type, 0, 512)?;
            guest.code.cmp(al, u32::from(OK))?;
            guest.code.jne(refused)?;
            guest.exit(3)?;
            guest.code.set_label(&mut refused)?;
        }
        Ok(())
    };
    assert_eq!(host.run(&GuestBuilder::image(DONE, write)), DONE.into());
    assert!(disk.is_unchanged());
}
