//! Memory behind the guest's page tables.

use hermit_interface::address::PAGE_SIZE;
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryMmap};

/// A part of an access that stays within a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    /// Its physical address.
    address: u64,
    size: usize,
}

/// The pieces of an access, up to the first one that is no memory. None of them if the access goes beyond the last
/// address.
fn pieces(
    memory: &GuestMemoryMmap,
    translate: impl Fn(u64) -> Option<u64>,
    address: u64,
    size: usize,
) -> Vec<Piece> {
    let mut found = Vec::new();
    let Some(end) = u64::try_from(size).ok().and_then(|size| address.checked_add(size)) else { return found };
    let mut next = address;
    while next < end {
        let rest_of_page = PAGE_SIZE - next % PAGE_SIZE;
        let length = rest_of_page.min(end - next);
        let size = usize::try_from(length).unwrap_or(0);
        let physical = translate(next).filter(|&address| memory.check_range(GuestAddress(address), size));
        let Some(address) = physical else { break };
        found.push(Piece { address, size });
        next += length;
    }
    found
}

/// Reads as many bytes as there are, and says how many.
pub(super) fn read(
    memory: &GuestMemoryMmap,
    translate: impl Fn(u64) -> Option<u64>,
    address: u64,
    bytes: &mut [u8],
) -> usize {
    let mut done = 0;
    for piece in pieces(memory, translate, address, bytes.len()) {
        let part = bytes.get_mut(done..done + piece.size).unwrap_or_default();
        if memory.read_slice(part, GuestAddress(piece.address)).is_err() {
            break;
        }
        done += piece.size;
    }
    done
}

/// Writes all bytes or, if one of them has no memory, none. The guest's own rights do not matter.
pub(super) fn write(
    memory: &GuestMemoryMmap,
    translate: impl Fn(u64) -> Option<u64>,
    address: u64,
    bytes: &[u8],
) -> Option<()> {
    let pieces = pieces(memory, translate, address, bytes.len());
    if pieces.iter().map(|piece| piece.size).sum::<usize>() != bytes.len() {
        return None;
    }
    let mut rest = bytes;
    for piece in pieces {
        let (part, later) = rest.split_at_checked(piece.size)?;
        memory.write_slice(part, GuestAddress(piece.address)).ok()?;
        rest = later;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::{read, write};
    use proptest::prelude::any;
    use proptest::proptest;
    use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

    /// Four pages; the virtual ones are in reverse order, and the third of them is missing.
    fn memory() -> GuestMemoryMmap {
        GuestMemoryMmap::from_ranges(&[(GuestAddress(0), 0x4000)]).unwrap()
    }

    fn translate(address: u64) -> Option<u64> {
        let page = match address >> 12 {
            0x10 => 3,
            0x11 => 2,
            0x13 => 0,
            0x14 => 4,
            _ => return None,
        };
        Some(page << 12 | address & 0xfff)
    }

    #[test]
    fn an_access_follows_the_page_tables() {
        let memory = memory();
        write(&memory, translate, 0x10ffe, &[1, 2, 3, 4]).unwrap();
        assert_eq!(memory.read_obj::<[u8; 2]>(GuestAddress(0x3ffe)).unwrap(), [1, 2]);
        assert_eq!(memory.read_obj::<[u8; 2]>(GuestAddress(0x2000)).unwrap(), [3, 4]);
        let mut bytes = [0; 4];
        assert_eq!(read(&memory, translate, 0x10ffe, &mut bytes), 4);
        assert_eq!(bytes, [1, 2, 3, 4]);
    }

    #[test]
    fn a_read_ends_where_memory_does() {
        let memory = memory();
        let mut bytes = [0; 0x1008];
        assert_eq!(read(&memory, translate, 0x11ff8, &mut bytes), 8);
        assert_eq!(read(&memory, translate, 0x12000, &mut bytes), 0);
        assert_eq!(read(&memory, translate, 0x14000, &mut bytes), 0, "a page without memory");
    }

    #[test]
    fn a_write_is_whole_or_not_at_all() {
        let memory = memory();
        assert_eq!(write(&memory, translate, 0x11fff, &[1, 2]), None);
        assert_eq!(memory.read_obj::<u8>(GuestAddress(0x2fff)).unwrap(), 0);
    }

    #[test]
    fn the_last_address_is_the_end() {
        let everywhere = |_| Some(0);
        assert_eq!(read(&memory(), everywhere, u64::MAX, &mut [0; 2]), 0);
        assert_eq!(write(&memory(), everywhere, u64::MAX - 3, &[0; 4]), None);
    }

    proptest! {
        #[test]
        fn any_access_is_done_or_refused(address in any::<u64>(), size in 0_usize..0x3000, page in any::<u64>()) {
            let mut bytes = vec![0; size];
            let anywhere = |address: u64| Some(page.wrapping_add(address));
            assert!(read(&memory(), anywhere, address, &mut bytes) <= size);
            let _: Option<()> = write(&memory(), anywhere, address, &bytes);
        }
    }
}
