//! Loading of a sample image.

extern crate std;

use hermit_interface::address::AddressRange;
use hermit_interface::boot_info::{self, BootInfo, Symbols};
use hermit_interface::image::sample::Sample;
use hermit_interface::image::{Image, check};
use hermit_paging::Access;
use std::vec;
use std::vec::Vec;
use zerocopy::FromBytes;

use super::{LoadedImage, load};
use crate::error::LoadError;
use crate::page_table::access;
use crate::page_table::tests::translate;
use crate::{FreeMemory, PhysicalMemory, Randomness};

const START: u64 = 0x10_0000;
/// An address after the image and its page tables.
const FREE: u64 = START + 0x8_0000;
const RANDOM: Randomness = Randomness { image: 0x1234_5678_9abc_def0, direct_map: 77, free_addresses: 99 };

/// Memory at [`START`], filled with 0xaa. Accesses elsewhere panic.
#[derive(Debug)]
struct TestMemory(Vec<u8>);

impl TestMemory {
    fn bytes(&mut self, address: u64, size: usize) -> &mut [u8] {
        let start = usize::try_from(address - START).unwrap();
        &mut self.0[start..start + size]
    }
}

impl PhysicalMemory for TestMemory {
    fn write(&mut self, address: u64, bytes: &[u8]) {
        self.bytes(address, bytes.len()).copy_from_slice(bytes);
    }

    fn zero(&mut self, address: u64, size: u64) {
        self.bytes(address, usize::try_from(size).unwrap()).fill(0);
    }

    fn read_word(&self, address: u64) -> u64 {
        let start = usize::try_from(address - START).unwrap();
        u64::read_from_prefix(&self.0[start..]).unwrap().0
    }
}

fn memory(size: u64) -> (TestMemory, FreeMemory) {
    let mut free = FreeMemory::new();
    free.free(AddressRange { start: START, end: START + size }).unwrap();
    (TestMemory(vec![0xaa; usize::try_from(size).unwrap()]), free)
}

fn loaded(size: u64, image: &Image<'_>) -> Result<(TestMemory, FreeMemory, LoadedImage), LoadError> {
    let (mut memory, mut free) = memory(size);
    let loaded = load(&mut memory, &mut free, image, RANDOM, 0)?;
    Ok((memory, free, loaded))
}

#[test]
fn segments_and_relocations_are_loaded() {
    let file = Sample::default().build();
    let image = check(&file).unwrap();
    let (mut memory, _, loaded) = loaded(1 << 20, &image).unwrap();
    let info = loaded.info.image;
    assert_eq!(loaded.entry, info.start + 0x1010);
    assert_eq!(memory.bytes(info.physical + 0x1100, 1), [2]);
    assert_eq!(memory.bytes(info.physical + 0x2500, 1), [3]);
    assert!(memory.bytes(info.physical + 0x1800, 0x800).iter().all(|&byte| byte == 0));
    assert!(memory.bytes(info.physical + 0x3800, 0x2800).iter().all(|&byte| byte == 0));
    assert_eq!(memory.read_word(info.physical + 0x2300), info.start + 0x1010);
    assert_eq!(memory.read_word(info.physical + 0x3008), info.start + 0x2000);
    for (offset, addend) in [(0x2400, 0x1011), (0x2418, 0x2001), (0x37f8, 0x3001)] {
        assert_eq!(memory.read_word(info.physical + offset), info.start + addend, "packed");
    }
    assert_eq!(memory.read_word(info.physical + 0x2408), 0x0303_0303_0303_0303);
    assert_eq!(loaded.info.tls.start, info.start + 0x2200);
}

#[test]
fn pages_have_the_access_of_their_segment() {
    let file = Sample::default().build();
    let (memory, _, loaded) = loaded(1 << 20, &check(&file).unwrap()).unwrap();
    let (info, root) = (loaded.info, loaded.info.page_table_root);
    let mapped = |offset| translate(&memory, root, info.image.start + offset);
    let at = |offset, write, execute| Some((info.image.physical + offset, access(write, execute)));
    assert_eq!(mapped(0), at(0, false, false));
    assert_eq!(mapped(0x1010), at(0x1010, false, true));
    assert_eq!(mapped(0x2010), at(0x2010, false, false), "read-only after relocation");
    assert_eq!(mapped(0x3000), at(0x3000, true, false));
    assert_eq!(mapped(0x5fff), at(0x5fff, true, false));
    assert_eq!(mapped(0x6000), None);
    assert_eq!(translate(&memory, root, 0), None);
    let direct = translate(&memory, root, info.direct_map.start + FREE + 5);
    assert_eq!(direct, Some((FREE + 5, Access::Write)));
    assert_eq!(info.direct_map.size, 2 << 20);
    assert_eq!(translate(&memory, root, info.direct_map.start + info.direct_map.size), None);
}

#[test]
fn direct_map_does_not_allow_writes_to_read_only_parts_of_the_image() {
    let file = Sample::default().build();
    let (memory, _, loaded) = loaded(1 << 20, &check(&file).unwrap()).unwrap();
    let (info, root) = (loaded.info, loaded.info.page_table_root);
    let access = |physical| translate(&memory, root, info.direct_map.start + physical).unwrap();
    let image = info.image.physical;
    for (offset, expected) in [
        (0, Access::Read),
        (0x1010, Access::Read),
        (0x2010, Access::Read),
        (0x3000, Access::Write),
        (0x5fff, Access::Write),
        (info.image.size, Access::Write),
    ] {
        assert_eq!(access(image + offset), (image + offset, expected), "{offset:#x}");
    }
}

#[test]
fn identity_map_is_created_on_request() {
    let file = Sample::default().build();
    let (mut memory, mut free) = memory(1 << 20);
    let loaded = load(&mut memory, &mut free, &check(&file).unwrap(), RANDOM, START + 5).unwrap();
    let expected = Some((START, Access::WriteExecute));
    assert_eq!(translate(&memory, loaded.info.page_table_root, START), expected);
}

#[test]
fn symbols_are_mapped_at_any_physical_address() {
    let file = Sample::default().build();
    let (mut memory, mut free, mut loaded) = loaded(1 << 20, &check(&file).unwrap()).unwrap();
    let far = 3 << 30;
    let symbols = Symbols {
        table: boot_info::Region { start: FREE + 5, size: 48 },
        strings: boot_info::Region { start: far - 10, size: 20 },
    };
    loaded.keep_symbols(&mut memory, &mut free, symbols).unwrap();
    assert_eq!(loaded.info.symbols, symbols);
    let (info, data) = (loaded.info, Access::Write);
    let mapped = |address| translate(&memory, info.page_table_root, info.direct_map.start + address);
    for address in [FREE + 5, FREE + 52, far - 10, far, far + 9] {
        assert_eq!(mapped(address), Some((address, data)));
    }
    assert_eq!(mapped(info.direct_map.size), None);
    assert_eq!(mapped(far + (2 << 20)), None);
}

#[test]
fn tree_is_readable_and_not_writable_at_any_physical_address() {
    let file = Sample::default().build();
    let far = 3 << 30;
    for initramfs in [
        boot_info::Region { start: FREE, size: 0x1001 },
        boot_info::Region { start: far - 0x1000, size: 0x3000 },
    ] {
        let (mut memory, mut free, mut loaded) = loaded(1 << 20, &check(&file).unwrap()).unwrap();
        loaded.keep_initramfs(&mut memory, &mut free, initramfs).unwrap();
        let info = loaded.info;
        assert_eq!(info.initramfs, initramfs);
        let mapped = |address| translate(&memory, info.page_table_root, info.direct_map.start + address);
        for address in [initramfs.start, initramfs.start + 0x1000, initramfs.end() - 1] {
            assert_eq!(mapped(address), Some((address, Access::Read)));
        }
        let behind = initramfs.end().next_multiple_of(0x1000);
        for address in [initramfs.start - 1, behind] {
            assert_eq!(mapped(address), Some((address, Access::Write)));
        }
    }
}

#[test]
fn boot_information_lists_free_memory() {
    let file = Sample::default().build();
    let (mut memory, mut free, loaded) = loaded(1 << 20, &check(&file).unwrap()).unwrap();
    let (image, direct_map) = (loaded.info.image, loaded.info.direct_map.start);
    let low = AddressRange { start: 0x1000, end: 0x9_f000 };
    let address = loaded.hand_over(&mut memory, &mut free, &[low], &[], b"-- one").unwrap() - direct_map;
    // As words, since boot information must be aligned.
    let bytes: Vec<u64> = (0..256).map(|index| memory.read_word(address + index * 8)).collect();
    let parsed = BootInfo::parse(zerocopy::IntoBytes::as_bytes(&bytes[..])).unwrap();
    assert_eq!(parsed.command_line, b"-- one");
    assert_eq!((parsed.regions[0].start, parsed.regions[0].end()), (low.start, low.end));
    let used = [(image.physical, image.physical + image.size), (address, address + 1)];
    for region in parsed.regions {
        assert!(used.iter().all(|&(start, end)| region.end() <= start || region.start >= end));
    }
}

#[test]
fn too_little_memory_is_out_of_memory_at_every_size() {
    let file = Sample::default().build();
    let image = check(&file).unwrap();
    let enough = (0..64).map(|pages| pages * 4096).find(|&size| loaded(size, &image).is_ok()).unwrap();
    assert!(
        (0..enough / 4096).all(|pages| loaded(pages * 4096, &image).unwrap_err() == LoadError::OutOfMemory)
    );
    let (mut memory, mut free, loaded) = loaded(enough, &image).unwrap();
    assert_eq!(loaded.hand_over(&mut memory, &mut free, &[], &[], b""), Err(LoadError::OutOfMemory));
}
