//! Access to guest memory at virtual addresses.

use hermit_interface::address::PAGE_SIZE;
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryMmap};

/// Part of an access that stays within a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Chunk {
    /// Guest physical address.
    address: u64,
    size: usize,
}

/// Splits an access into chunks, up to the first page that is not mapped to memory. Returns no chunks if the
/// access wraps around the address space.
fn chunks(
    memory: &GuestMemoryMmap,
    translate: impl Fn(u64) -> Option<u64>,
    address: u64,
    size: usize,
) -> Vec<Chunk> {
    let mut found = Vec::new();
    let Some(end) = u64::try_from(size).ok().and_then(|size| address.checked_add(size)) else { return found };
    let mut next = address;
    while next < end {
        let rest_of_page = PAGE_SIZE - next % PAGE_SIZE;
        let length = rest_of_page.min(end - next);
        let size = usize::try_from(length).unwrap_or(0);
        let physical = translate(next).filter(|&address| memory.check_range(GuestAddress(address), size));
        let Some(address) = physical else { break };
        found.push(Chunk { address, size });
        next += length;
    }
    found
}

/// Reads up to the first byte that is not mapped, and returns the number of bytes read.
pub(super) fn read(
    memory: &GuestMemoryMmap,
    translate: impl Fn(u64) -> Option<u64>,
    address: u64,
    bytes: &mut [u8],
) -> usize {
    let mut done = 0;
    for chunk in chunks(memory, translate, address, bytes.len()) {
        let part = bytes.get_mut(done..done + chunk.size).unwrap_or_default();
        if memory.read_slice(part, GuestAddress(chunk.address)).is_err() {
            break;
        }
        done += chunk.size;
    }
    done
}

/// Writes all bytes, or nothing if one of them is not mapped. Ignores page protections.
pub(super) fn write(
    memory: &GuestMemoryMmap,
    translate: impl Fn(u64) -> Option<u64>,
    address: u64,
    bytes: &[u8],
) -> Option<()> {
    let chunks = chunks(memory, translate, address, bytes.len());
    if chunks.iter().map(|chunk| chunk.size).sum::<usize>() != bytes.len() {
        return None;
    }
    let mut rest = bytes;
    for chunk in chunks {
        let (part, later) = rest.split_at_checked(chunk.size)?;
        memory.write_slice(part, GuestAddress(chunk.address)).ok()?;
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

    /// Four pages, which [`translate`] maps in reverse order; the third virtual page is missing.
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
    fn access_follows_translation() {
        let memory = memory();
        write(&memory, translate, 0x10ffe, &[1, 2, 3, 4]).unwrap();
        assert_eq!(memory.read_obj::<[u8; 2]>(GuestAddress(0x3ffe)).unwrap(), [1, 2]);
        assert_eq!(memory.read_obj::<[u8; 2]>(GuestAddress(0x2000)).unwrap(), [3, 4]);
        let mut bytes = [0; 4];
        assert_eq!(read(&memory, translate, 0x10ffe, &mut bytes), 4);
        assert_eq!(bytes, [1, 2, 3, 4]);
    }

    #[test]
    fn read_stops_at_unmapped_page() {
        let memory = memory();
        let mut bytes = [0; 0x1008];
        assert_eq!(read(&memory, translate, 0x11ff8, &mut bytes), 8);
        assert_eq!(read(&memory, translate, 0x12000, &mut bytes), 0);
        assert_eq!(read(&memory, translate, 0x14000, &mut bytes), 0, "a page without memory");
    }

    #[test]
    fn write_is_complete_or_has_no_effect() {
        let memory = memory();
        assert_eq!(write(&memory, translate, 0x11fff, &[1, 2]), None);
        assert_eq!(memory.read_obj::<u8>(GuestAddress(0x2fff)).unwrap(), 0);
    }

    #[test]
    fn access_does_not_wrap_around() {
        let everywhere = |_| Some(0);
        assert_eq!(read(&memory(), everywhere, u64::MAX, &mut [0; 2]), 0);
        assert_eq!(write(&memory(), everywhere, u64::MAX - 3, &[0; 4]), None);
    }

    proptest! {
        #[test]
        fn arbitrary_access_stays_within_buffer(address in any::<u64>(), size in 0_usize..0x3000, page in any::<u64>()) {
            let mut bytes = vec![0; size];
            let anywhere = |address: u64| Some(page.wrapping_add(address));
            assert!(read(&memory(), anywhere, address, &mut bytes) <= size);
            let _: Option<()> = write(&memory(), anywhere, address, &bytes);
        }
    }
}
