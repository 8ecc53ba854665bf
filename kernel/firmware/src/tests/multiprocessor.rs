//! Tables of the MultiProcessor Specification.

use std::vec;
use std::vec::Vec;

use super::isa_interrupt;
use super::sample::{TestMemory, configuration, floating_pointer, multiprocessor, processor};
use crate::{IoApic, PlatformInfo, Polarity, TriggerMode, platform_info};

/// Address of the floating pointer structure.
const POINTER: u64 = 0xf_5300;

fn with_entries(entries: &[Vec<u8>]) -> Option<PlatformInfo> {
    let mut memory = TestMemory::new();
    memory.write(0x8000, &configuration(entries));
    memory.write(POINTER, &floating_pointer(0x8000));
    platform_info(&memory, None)
}

#[test]
fn tables_of_a_qemu_pc_are_read() {
    let info = platform_info(&multiprocessor(4, POINTER), None).unwrap();
    assert_eq!(info.cpus, [0, 1, 2, 3]);
    assert_eq!(info.local_apic_address, 0xfee0_0000);
    assert_eq!(info.io_apics, [IoApic { id: 0, address: 0xfec0_0000, gsi_base: 0 }]);
    assert_eq!(info.isa_interrupt(0).gsi, 2);
    assert_eq!(info.isa_interrupt(4).gsi, 4);
    assert_eq!(info.isa_interrupts.len(), 15);
    assert_eq!((info.hpet, info.pm1a_control, info.reset), (None, None, None));
}

#[test]
#[cfg_attr(miri, ignore = "one page is searched")]
fn all_search_areas_are_searched() {
    for address in [0xf_0000, 0xf_fff0, 0x9_fc00, 0x9_fff0] {
        assert!(platform_info(&multiprocessor(1, address), None).is_some(), "{address:#x}");
    }
    for address in [0x9_0000, 0x7_fc00, 0xe_fff0] {
        assert_eq!(platform_info(&multiprocessor(1, address), None), None, "{address:#x}");
    }
    let mut memory = multiprocessor(1, 0x9_03f0);
    memory.write(0x40e, &0x9000_u16.to_le_bytes());
    assert!(platform_info(&memory, None).is_some(), "extended data area");
    let mut memory = multiprocessor(1, 0x7_fc00);
    memory.write(0x413, &512_u16.to_le_bytes());
    assert!(platform_info(&memory, None).is_some(), "base memory");
}

#[test]
fn invalid_checksum_or_signature_is_rejected() {
    let memory = multiprocessor(1, POINTER);
    let configuration = 0xf_5310;
    for byte in [
        POINTER,
        POINTER + 4,
        POINTER + 8,
        POINTER + 15,
        configuration,
        configuration + 4,
        configuration + 60,
    ] {
        let mut broken = memory.clone();
        broken.low[usize::try_from(byte).unwrap()] ^= 1;
        assert_eq!(platform_info(&broken, None), None, "{byte:#x}");
    }
    let mut none = memory.clone();
    none.write(POINTER, &floating_pointer(0));
    assert_eq!(platform_info(&none, None), None, "a default configuration");
}

#[test]
fn enabled_processors_are_recorded_without_duplicates() {
    let entries = [processor(1, 3), processor(2, 0), processor(3, 2), processor(1, 1), processor(255, 1)];
    assert_eq!(with_entries(&entries).unwrap().cpus, [1]);
    assert_eq!(with_entries(&[processor(1, 0)]), None);
}

/// QEMU's qboot writes 0, and pads the table with zeros.
#[test]
fn entry_count_is_ignored() {
    for count in [0, 1, 3, u16::MAX] {
        let mut table = configuration(&[processor(0, 1), processor(1, 1), vec![0; 50]]);
        table[34..36].copy_from_slice(&count.to_le_bytes());
        let mut memory = TestMemory::new();
        memory.write(0x8000, &super::sample::with_checksum(table, 7));
        memory.write(POINTER, &floating_pointer(0x8000));
        assert_eq!(platform_info(&memory, None).unwrap().cpus, [0, 1], "{count}");
    }
}

#[test]
fn unknown_entry_ends_the_table() {
    let entries = [processor(0, 1), vec![5; 8], processor(1, 1)];
    assert_eq!(with_entries(&entries).unwrap().cpus, [0]);
}

#[test]
fn isa_interrupts_are_recorded() {
    let entries = [
        processor(0, 1),
        [vec![1, 7], b"ISA   ".to_vec()].concat(),
        vec![2, 3, 0x11, 1, 0, 0, 0xc0, 0xfe],
        vec![2, 4, 0x11, 0, 0, 0x10, 0xc0, 0xfe],
        vec![2, 5, 0x11, 1, 0, 0x20, 0xc0, 0xfe],
        vec![3, 0, 0xf, 0, 7, 9, 5, 1],
        vec![3, 0, 0, 0, 7, 1, 255, 1],
        // Another bus, an ExtINT, a disabled I/O APIC, an interrupt number beyond the bus.
        vec![3, 0, 0, 0, 6, 2, 3, 2],
        vec![3, 3, 0, 0, 7, 3, 3, 3],
        vec![3, 0, 0, 0, 7, 4, 4, 4],
        vec![3, 0, 0, 0, 7, 16, 3, 16],
    ];
    let info = with_entries(&entries).unwrap();
    assert_eq!(info.io_apics.iter().map(|one| one.gsi_base).collect::<Vec<_>>(), [0, 24]);
    let expected = [
        isa_interrupt(9, 25, Polarity::Low, TriggerMode::Level),
        isa_interrupt(1, 1, Polarity::High, TriggerMode::Edge),
    ];
    assert_eq!(info.isa_interrupts, expected);
}

#[test]
fn acpi_tables_are_preferred() {
    let mut memory = super::sample::acpi(2);
    let other = multiprocessor(1, POINTER);
    memory.write(POINTER, &other.low[0xf_5300..0xf_6000]);
    assert_eq!(platform_info(&memory, None).unwrap().cpus, [0, 1]);
    memory.high.clear();
    assert_eq!(platform_info(&memory, None).unwrap().cpus, [0]);
}
