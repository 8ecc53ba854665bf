//! Reading terminates and does not panic for any contents of memory.

use std::vec::Vec;

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::{prop_assert, prop_assert_eq, proptest};

use super::sample::{self, HIGH, POINTER, TestMemory};
use crate::platform_info;

/// Upper bound of the bytes that are read.
const LIMIT: u64 = 16 << 20;

/// Overwrites bytes at random offsets of both parts of the memory.
fn scatter(memory: &mut TestMemory, changes: &[(usize, u8)]) {
    let size = memory.high.len();
    for &(offset, byte) in changes {
        if size > 0 {
            memory.high[offset % size] = byte;
        }
        // The 4 KiB around the pointers.
        memory.low[0xf_5000 + offset % 4096] = byte;
    }
}

/// Fixes the checksums of everything with a table's signature, so that changes pass the check.
fn fix_checksums(memory: &mut TestMemory) {
    let tables = [(&b"APIC"[..], 9), (b"XSDT", 9), (b"RSDT", 9), (b"FACP", 9), (b"HPET", 9)];
    for (signature, checksum) in tables {
        fix_checksum(&mut memory.high, signature, checksum, |table| {
            u32::from_le_bytes([table[4], table[5], table[6], table[7]]) as usize
        });
    }
    fix_checksum(&mut memory.high, b"RSD PTR ", 8, |_| 20);
    fix_checksum(&mut memory.high, b"RSD PTR ", 32, |_| 36);
    let low = &mut memory.low[0xf_5000..0xf_6000];
    fix_checksum(low, b"RSD PTR ", 8, |_| 20);
    fix_checksum(low, b"PCMP", 7, |table| usize::from(u16::from_le_bytes([table[4], table[5]])));
    fix_checksum(low, b"_MP_", 10, |table| usize::from(table[8]) * 16);
}

fn fix_checksum(piece: &mut [u8], signature: &[u8], checksum: usize, length: impl Fn(&[u8]) -> usize) {
    let starts: Vec<_> = (0..piece.len()).filter(|&start| piece[start..].starts_with(signature)).collect();
    for start in starts {
        let Some(header) = piece.get(start..start + 16) else { continue };
        let length = length(header);
        let Some(table) = piece.get_mut(start..).and_then(|rest| rest.get_mut(..length)) else { continue };
        if length > checksum {
            table[checksum] = 0;
            table[checksum] = table.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte)).wrapping_neg();
        }
    }
}

/// The signature of a table, or random bytes.
fn word() -> impl Strategy<Value = [u8; 8]> {
    prop_oneof![
        Just(*b"RSD PTR "),
        Just(*b"_MP_\0\x50\x0f\0"),
        Just(*b"PCMP\x40\0\x04\0"),
        Just(*b"RSDT\x40\0\0\0"),
        Just(*b"XSDT\x40\0\0\0"),
        Just(*b"APIC\x40\0\0\0"),
        (0..4096_u64).prop_map(|offset| (HIGH + offset).to_le_bytes()),
        any::<[u8; 8]>(),
    ]
}

proptest! {
    /// Random bytes with signatures and addresses.
    #[test]
    fn random_memory_is_read_in_bounded_time(
        filler in any::<[u8; 16]>(),
        low in vec((0..512_usize, word()), 0..40),
        high in vec((0..512_usize, word()), 0..60),
        rsdp in proptest::option::of(prop_oneof![any::<u64>(), HIGH..HIGH + 4096, Just(POINTER)]),
        segment in any::<u16>(),
    ) {
        let page = |words: &[(usize, [u8; 8])]| {
            let mut page = filler.repeat(256);
            words.iter().for_each(|(slot, word)| page[slot * 8..][..8].copy_from_slice(word));
            page
        };
        let mut memory = TestMemory::new();
        memory.high = page(&high);
        memory.write(0xf_5000, &page(&low));
        memory.write(0x40e, &segment.to_le_bytes());
        fix_checksums(&mut memory);
        let _found = platform_info(&memory, rsdp);
        prop_assert!(memory.read.get() < LIMIT);
    }

    /// Changes of valid tables, with and without valid checksums.
    #[test]
    fn corrupted_tables_are_read_in_bounded_time(
        changes in vec((any::<usize>(), any::<u8>()), 1..20),
        is_wide in any::<bool>(),
        with_checksums in any::<bool>(),
        cut in 0..2000_usize,
    ) {
        let (mut memory, rsdp) = if is_wide { sample::acpi_2(8) } else { (sample::acpi(8), 0) };
        memory.write(0xf_5300, &sample::multiprocessor(4, 0xf_5300).low[0xf_5300..0xf_5800]);
        scatter(&mut memory, &changes);
        memory.high.truncate(cut.max(100));
        if with_checksums {
            fix_checksums(&mut memory);
        }
        let found = platform_info(&memory, Some(rsdp));
        prop_assert!(found.is_none_or(|found| !found.cpus.is_empty()));
        prop_assert!(memory.read.get() < LIMIT);
    }

    /// Random MADT structures agree with a model.
    #[test]
    fn random_madt_structures_agree_with_a_model(records in vec((0..12_u8, 0..20_u8, vec(any::<u8>(), 18)), 0..60)) {
        let encode = |(kind, length, body): &(u8, u8, Vec<u8>)| {
            let body = &body[..usize::from(*length).saturating_sub(2)];
            [&[*kind, *length][..], body].concat()
        };
        let mut memory = TestMemory::new();
        let madt = memory.add(&sample::madt(&records.iter().map(encode).collect::<Vec<_>>()));
        let xsdt = memory.add(&sample::table(b"XSDT", &madt.to_le_bytes()));
        let pointer = memory.add(&sample::pointer(0, Some(xsdt)));
        let mut expected = Vec::new();
        for (kind, length, body) in &records {
            let id = match (kind, length) {
                (_, 0..2) => break,
                (0, 8..) if body[2] & 1 != 0 && body[1] != 255 => u32::from(body[1]),
                (9, 16..) if body[6] & 1 != 0 => u32::from_le_bytes([body[2], body[3], body[4], body[5]]),
                _ => continue,
            };
            if !expected.contains(&id) {
                expected.push(id);
            }
        }
        let cpus = platform_info(&memory, Some(pointer)).map_or(Vec::new(), |info| info.cpus.to_vec());
        prop_assert_eq!(cpus, expected);
    }
}

/// Tables of maximum size and number with valid checksums but no entries.
#[test]
#[cfg_attr(miri, ignore = "16 MiB take minutes")]
fn largest_tables_are_read_in_bounded_time() {
    let mut memory = TestMemory::new();
    let empty = memory.add(&sample::table(b"APIC", &std::vec![0; 65_500]));
    let xsdt = memory.add(&sample::table(b"XSDT", &empty.to_le_bytes().repeat(8000)));
    let pointer = memory.add(&sample::pointer(0, Some(xsdt)));
    memory.high[100] ^= 1;
    assert_eq!(platform_info(&memory, Some(pointer)), None);
    assert!(memory.read.get() < LIMIT, "{}", memory.read.get());
}
