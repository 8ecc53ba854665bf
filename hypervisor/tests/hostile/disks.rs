//! Requests by which a guest tries to reach what is not its own.

use iced_x86::code_asm::{al, byte_ptr, rbx, rcx};

use crate::driver::{NEXT, Queue, Rings, WRITE};
use crate::guest::{Assembled, BUFFERS, Guest};
use crate::host::Host;

const SECTORS: u8 = 8;
const RINGS: Rings = Rings::at(BUFFERS);
const HEADER: u64 = BUFFERS + 0x1000;
const ANSWER: u64 = BUFFERS + 0x1100;
/// Nothing that a disk of these tests holds.
const DATA: u64 = BUFFERS + 0x2000;

/// Kinds of requests and their answers (virtio 1.2, section 5.2.6).
const OUT: u32 = 1;
const OK: u8 = 0;
const ERROR: u8 = 1;
const NO_ANSWER: u8 = 0xee;

/// Asks for `length` bytes from DATA on to be written to `sector`; leaves the answer in al.
fn request(guest: &mut Guest, kind: u32, sector: u64, length: u32) -> Assembled {
    guest.clear(BUFFERS, 0x600)?;
    guest.write64(HEADER, kind.into())?;
    guest.write64(HEADER + 8, sector)?;
    guest.write16(ANSWER, NO_ANSWER.into())?;
    let chain = [(HEADER, 16, NEXT, 1), (DATA, length, NEXT, 2), (ANSWER, 1, WRITE, 0)];
    guest.describe(RINGS.descriptors, &chain)?;
    guest.set_up(Queue::DISK, RINGS)?;
    guest.offer(Queue::DISK, RINGS, &[0], 1)?;
    guest.wait_for(RINGS, 1)?;
    guest.code.mov(rbx, ANSWER)?;
    guest.code.mov(al, byte_ptr(rbx))
}

/// Ends the guest unless the answer is this one; its status tells which it was.
fn expect(guest: &mut Guest, answer: u8) -> Assembled {
    let mut good = guest.code.create_label();
    guest.code.cmp(al, u32::from(answer))?;
    guest.code.je(good)?;
    guest.code.add(al, 100)?;
    guest.exit_with_al()?;
    guest.code.set_label(&mut good)?;
    guest.code.mov(rcx, 0u64)
}

/// A status by which a test knows that the guest came to its end.
const DONE: u8 = 42;

#[test]
fn a_write_within_a_disk_changes_it_there_only() {
    let Some(mut host) = Host::new() else { return };
    let (disk, sibling) = (host.disk("disk", SECTORS), host.disk("sibling", SECTORS));
    host.option(&format!("--block={}", disk.name()));
    let write = |guest: &mut Guest| {
        guest.write64(DATA, u64::MAX)?;
        request(guest, OUT, 3, 512)?;
        expect(guest, OK)
    };
    assert_eq!(host.run(&Guest::image(DONE, write)), DONE.into());
    let mut expected = disk.content().to_vec();
    expected[3 * 512..4 * 512].fill(0);
    expected[3 * 512..][..8].fill(0xff);
    assert!(disk.now() == expected);
    assert!(sibling.is_untouched());
}

/// Asks for bytes to be written, so many from each sector on: the answer is an error, and no file changes.
fn is_refused(access: &str, requests: &[(u64, u32)]) {
    let Some(mut host) = Host::new() else { return };
    let (disk, sibling) = (host.disk("disk", SECTORS), host.disk("sibling", SECTORS));
    host.option(&format!("--block={}{access}", disk.name()));
    let write = |guest: &mut Guest| {
        requests.iter().try_for_each(|&(sector, length)| {
            request(guest, OUT, sector, length)?;
            expect(guest, ERROR)
        })
    };
    assert_eq!(host.run(&Guest::image(DONE, write)), DONE.into());
    assert!(disk.is_untouched() && sibling.is_untouched());
}

#[test]
fn a_read_only_disk_is_not_written() {
    is_refused(":ro", &[(0, 512), (7, 512), (0, 4096), (8, 512)]);
}

#[test]
fn nothing_is_written_beyond_the_end_of_a_disk() {
    let beyond = u64::from(SECTORS);
    let sectors = [beyond, beyond + 1, 1 << 31, 1 << 32, 1 << 54, 1 << 55, 1 << 63, u64::MAX];
    is_refused("", &sectors.map(|sector| (sector, 512)));
    is_refused("", &[(7, 1024), (1, 4096), (0, 1 << 20), (0, 511), (0, 513), (u64::MAX, 1024)]);
}

/// Erasing (11, 13), writing zeros, and kinds that nobody knows: the answer is any but success.
#[test]
fn requests_that_a_disk_does_not_know_change_nothing() {
    let Some(mut host) = Host::new() else { return };
    let disk = host.disk("disk", SECTORS);
    host.option(&format!("--block={}", disk.name()));
    let write = |guest: &mut Guest| {
        for kind in [2, 3, 11, 13, 14, 15, 16, 24, 0x8000_0000, u32::MAX] {
            let mut refused = guest.code.create_label();
            request(guest, kind, 0, 512)?;
            guest.code.cmp(al, u32::from(OK))?;
            guest.code.jne(refused)?;
            guest.exit(3)?;
            guest.code.set_label(&mut refused)?;
        }
        Ok(())
    };
    assert_eq!(host.run(&Guest::image(DONE, write)), DONE.into());
    assert!(disk.is_untouched());
}
