//! ACPI tables.
//!
//! Most tests make valid tables, change one byte or one structure, and check which platform information is
//! left: a table with an error is ignored.

use std::vec;
use std::vec::Vec;

use super::isa_interrupt;
use super::sample::{
    self, HIGH, POINTER, TestMemory, acpi, acpi_2, bytes, fadt_body, hpet, io_apic, local_apic, local_x2apic,
    madt, pointer, qemu_madt, source_override, table,
};
use crate::{
    AcpiMode, FixedPowerButton, InterruptLine, IoApic, MAX_IO_APICS, PlatformInfo, Polarity, PowerButton,
    Reset, TriggerMode, platform_info,
};

/// The description by tables that an RSDT lists.
fn with_tables(tables: &[Vec<u8>]) -> Option<PlatformInfo> {
    let mut memory = TestMemory::new();
    let addresses: Vec<_> = tables.iter().map(|table| memory.add(table)).collect();
    let rsdt = memory.add(&sample::rsdt(&addresses));
    memory.write(POINTER, &pointer(rsdt, None));
    platform_info(&memory, None)
}

fn with_structures(records: &[Vec<u8>]) -> Option<PlatformInfo> {
    with_tables(&[madt(records)])
}

#[test]
fn tables_of_a_qemu_pc_are_read() {
    let info = platform_info(&acpi(4), None).unwrap();
    assert_eq!(info.cpus, [0, 1, 2, 3]);
    assert_eq!(info.local_apic_address, 0xfee0_0000);
    assert_eq!(info.io_apics, [IoApic { id: 0, address: 0xfec0_0000, gsi_base: 0 }]);
    let level = |isa: u8| isa_interrupt(isa, u32::from(isa), Polarity::High, TriggerMode::Level);
    let timer = isa_interrupt(0, 2, Polarity::High, TriggerMode::Edge);
    assert_eq!(info.isa_interrupts, [timer, level(5), level(9), level(10), level(11)]);
    assert_eq!(info.isa_interrupt(0), timer.line);
    assert_eq!(
        info.isa_interrupt(4),
        InterruptLine { gsi: 4, polarity: Polarity::High, trigger: TriggerMode::Edge }
    );
    assert_eq!(info.hpet, Some(0xfed0_0000));
    assert_eq!(info.pm1a_control, Some(0x604));
    assert_eq!(info.reset, Some(Reset { port: 0xcf9, value: 0xf }));
}

#[test]
fn given_rsdp_leads_to_the_xsdt() {
    let (memory, place) = acpi_2(2);
    let found = platform_info(&memory, Some(place)).unwrap();
    assert_eq!(found.cpus, [0, 1]);
    assert_eq!(found.hpet, Some(0xfed0_0000));
    assert_eq!(platform_info(&memory, None), None);
}

#[test]
fn rsdp_is_found_in_the_extended_bios_data_area() {
    let (mut memory, place) = acpi_2(2);
    let start = usize::try_from(place - HIGH).unwrap();
    let pointer = memory.high[start..].to_vec();
    memory.write(0x9_fc10, &pointer);
    assert_eq!(platform_info(&memory, None), None, "the BIOS data area has no segment");
    memory.write(0x40e, &0x9fc0_u16.to_le_bytes());
    assert_eq!(platform_info(&memory, None).unwrap().cpus, [0, 1]);
}

#[test]
fn invalid_given_rsdp_is_replaced_by_a_found_one() {
    let memory = acpi(3);
    for address in [0, 1, POINTER + 16, HIGH, HIGH - 4, u64::MAX, u64::MAX - 20] {
        assert_eq!(platform_info(&memory, Some(address)).unwrap().cpus, [0, 1, 2], "{address:#x}");
    }
}

#[test]
fn rsdp_is_searched_at_multiples_of_16() {
    let mut memory = acpi(1);
    let pointer = memory.low[0xf_52e0..][..20].to_vec();
    memory.write(POINTER, &[0; 20]);
    memory.write(POINTER + 8, &pointer);
    assert_eq!(platform_info(&memory, None), None);
    assert!(platform_info(&memory, Some(POINTER + 8)).is_some());
}

#[test]
fn rsdt_replaces_an_invalid_xsdt() {
    let mut memory = acpi(2);
    let rsdt = u32::from_le_bytes(memory.low[0xf_52f0..][..4].try_into().unwrap());
    for xsdt in [0, HIGH, HIGH + 1, u64::MAX - 8, u64::MAX] {
        memory.write(POINTER, &pointer(u64::from(rsdt), Some(xsdt)));
        assert_eq!(platform_info(&memory, None).unwrap().cpus, [0, 1], "{xsdt:#x}");
    }
}

#[test]
fn invalid_checksum_rejects_each_table() {
    let (memory, place) = acpi_2(1);
    let starts =
        |memory: &TestMemory, signature: &[u8]| memory.high.windows(4).position(|window| window == signature);
    for (signature, is_needed) in [(b"APIC", true), (b"XSDT", true), (b"HPET", false), (b"FACP", false)] {
        let mut broken = memory.clone();
        let start = starts(&memory, signature).unwrap();
        broken.high[start + 20] ^= 1;
        let found = platform_info(&broken, Some(place));
        assert_eq!(found.is_none(), is_needed, "{signature:?}");
        assert!(found.is_none_or(|found| found.hpet.is_none() || found.pm1a_control.is_none()));
    }
    // The first and the extended checksum of the RSDP.
    for byte in [9, 33] {
        let mut broken = memory.clone();
        broken.high[usize::try_from(place - HIGH).unwrap() + byte] ^= 1;
        assert_eq!(platform_info(&broken, Some(place)), None, "{byte}");
    }
}

#[test]
fn first_valid_table_of_a_signature_is_used() {
    let mut broken = qemu_madt(1);
    broken[40] ^= 0xff;
    assert_eq!(with_tables(&[broken, qemu_madt(2), qemu_madt(3)]).unwrap().cpus, [0, 1]);
}

#[test]
fn enabled_processors_are_recorded_without_duplicates() {
    let structures = [
        local_apic(2, 1),
        local_apic(3, 0),
        local_apic(4, 2),
        local_apic(2, 1),
        local_apic(255, 1),
        local_x2apic(2, 1),
        local_x2apic(300, 1),
        local_x2apic(301, 0),
        local_x2apic(u32::MAX, 1),
    ];
    assert_eq!(with_structures(&structures).unwrap().cpus, [2, 300]);
    assert_eq!(with_structures(&[local_apic(0, 0)]), None);
    assert_eq!(with_structures(&[]), None);
}

#[test]
fn entries_beyond_the_capacity_are_ignored() {
    let mut structures: Vec<_> = (0..200).map(|id| local_x2apic(id, 1)).collect();
    structures
        .extend((0..20).map(|id| io_apic(id, 0xfec0_0000 + u32::from(id) * 0x1000, u32::from(id) * 24)));
    structures.extend((0..=255).map(|line| source_override(line, 7, 0)));
    let info = with_structures(&structures).unwrap();
    assert!(info.cpus.iter().copied().eq(0..64));
    assert_eq!(info.io_apics.len(), MAX_IO_APICS);
    assert_eq!(info.isa_interrupts.len(), 16);
}

#[test]
fn structures_with_invalid_lengths_end_or_are_skipped() {
    let cpu = local_apic(0, 1);
    let after =
        |structure: Vec<u8>| with_structures(&[cpu.clone(), structure, local_apic(1, 1)]).unwrap().cpus;
    assert_eq!(after(vec![200, 3, 0])[..], [0, 1], "unknown type");
    assert_eq!(after(vec![0, 4, 5, 5])[..], [0, 1], "too short for its type");
    assert_eq!(after(vec![0, 12, 7, 7, 1, 0, 0, 0, 9, 9, 9, 9])[..], [0, 7, 1], "longer than known");
    assert_eq!(after(vec![0, 0])[..], [0]);
    assert_eq!(after(vec![0, 1])[..], [0]);
    assert_eq!(after(vec![0, 255, 5, 5, 1, 0, 0, 0])[..], [0], "longer than the table");
}

#[test]
fn local_apic_address_override_is_used() {
    let address = bytes![5_u8, 12_u8, 0_u16, 0x12_fee0_0000_u64];
    assert_eq!(with_structures(&[local_apic(0, 1), address]).unwrap().local_apic_address, 0x12_fee0_0000);
}

#[test]
fn io_apics_are_recorded_without_duplicates_and_address_0() {
    let structures =
        [local_apic(0, 1), io_apic(0, 0, 0), io_apic(1, 4096, 0), io_apic(2, 4096, 24), io_apic(3, 8192, 24)];
    let addresses: Vec<_> =
        with_structures(&structures).unwrap().io_apics.iter().map(|one| one.address).collect();
    assert_eq!(addresses, [4096, 8192]);
}

#[test]
fn inti_flags_give_polarity_and_trigger_mode() {
    for (flags, polarity, trigger) in [
        (0x0, Polarity::High, TriggerMode::Edge),
        (0x5, Polarity::High, TriggerMode::Edge),
        (0x7, Polarity::Low, TriggerMode::Edge),
        (0xd, Polarity::High, TriggerMode::Level),
        (0xf, Polarity::Low, TriggerMode::Level),
        (0xfffa, Polarity::High, TriggerMode::Edge),
    ] {
        let structures = [local_apic(0, 1), source_override(9, 20, flags), source_override(9, 21, 0)];
        let lines = with_structures(&structures).unwrap().isa_interrupts;
        assert_eq!(lines, [isa_interrupt(9, 20, polarity, trigger)], "{flags:#x}");
    }
    let other_bus = bytes![2_u8, 10_u8, 1_u8, 3_u8, 30_u32, 0_u16];
    assert!(with_structures(&[local_apic(0, 1), other_bus]).unwrap().isa_interrupts.is_empty());
}

#[test]
fn hpet_must_be_in_memory() {
    let found = |table: Vec<u8>| with_tables(&[qemu_madt(1), table]).unwrap().hpet;
    assert_eq!(found(hpet(0, 0x1234_5678_9000)), Some(0x1234_5678_9000));
    assert_eq!(found(hpet(1, 0x1000)), None);
    assert_eq!(found(hpet(0, 0)), None);
    assert_eq!(found(table(b"HPET", &[0; 8])), None);
}

#[test]
fn power_registers_must_be_io_ports() {
    type Change = (usize, &'static [u8]);
    let found = |changes: &[Change], length: usize| {
        let mut body = fadt_body();
        for (offset, bytes) in changes {
            body[offset - 36..][..bytes.len()].copy_from_slice(bytes);
        }
        let info = with_tables(&[qemu_madt(1), table(b"FACP", &body[..length - 36])]).unwrap();
        (info.pm1a_control, info.reset.map(|reset| reset.port))
    };
    assert_eq!(found(&[], 244), (Some(0x604), Some(0xcf9)));
    assert_eq!(found(&[], 116), (Some(0x604), None), "ACPI 1.0");
    assert_eq!(found(&[], 40), (None, None));
    assert_eq!(found(&[(180, &[0; 4])], 176), (Some(0x604), Some(0xcf9)));
    assert_eq!(found(&[(172, &[0])], 244), (None, Some(0xcf9)), "in memory");
    assert_eq!(found(&[(176, &[4, 0xb0])], 244), (Some(0xb004), Some(0xcf9)), "the extended field is used");
    assert_eq!(found(&[(178, &[1])], 244), (None, Some(0xcf9)), "no such port");
    assert_eq!(found(&[(176, &[0, 0]), (64, &[4, 0xb0])], 244), (Some(0xb004), Some(0xcf9)));
    assert_eq!(found(&[(176, &[0, 0]), (64, &[4, 0xb0, 1])], 244), (None, Some(0xcf9)));
    assert_eq!(found(&[(112, &[0, 0, 0x10, 0])], 244), (None, None), "hardware-reduced ACPI");
    assert_eq!(found(&[(116, &[0])], 244), (Some(0x604), None), "in memory");
}

#[test]
fn power_button_is_found_by_registers_and_flags() {
    type Change = (usize, &'static [u8]);
    let found = |changes: &[Change]| {
        let mut body = fadt_body();
        body.resize(256 - 36, 0);
        for (offset, bytes) in changes {
            body[offset - 36..][..bytes.len()].copy_from_slice(bytes);
        }
        with_tables(&[qemu_madt(1), table(b"FACP", &body)]).unwrap().power_button
    };
    let acpi_mode = AcpiMode { command: 0xb2, value: 0xf1, control: 0x604 };
    let button = FixedPowerButton { interrupt: 9, status: 0x600, enable: 0x602, acpi_mode: Some(acpi_mode) };
    assert_eq!(found(&[]), Some(PowerButton::Fixed(button)));
    let without_mode = FixedPowerButton { acpi_mode: None, ..button };
    assert_eq!(found(&[(48, &[0])]), Some(PowerButton::Fixed(without_mode)));
    let extended = FixedPowerButton { status: 0xb000, enable: 0xb004, ..button };
    let changes: [Change; 2] = [(148, &[1, 16, 0, 0, 0, 0xb0]), (88, &[8])];
    assert_eq!(found(&changes), Some(PowerButton::Fixed(extended)));
    let reduced: Change = (112, &[0, 0, 0x10, 0]);
    assert_eq!(
        found(&[reduced, (244, &[0, 8, 0, 0, 0, 2, 0xa0, 0xfe])]),
        Some(PowerButton::Event(0xfea0_0000))
    );
    let missing: [&[Change]; 8] = [
        &[(112, &[0x10])],
        &[(46, &[16])],
        &[(47, &[1])],
        &[(56, &[0, 0])],
        &[(56, &[0, 0, 1])],
        &[(88, &[2])],
        &[reduced],
        &[reduced, (244, &[0, 8, 0, 0, 0, 2, 0xb0, 0xfe])],
    ];
    for changes in missing {
        assert_eq!(found(changes), None, "{changes:?}");
    }
    assert_eq!(found(&[(56, &[0xff; 4])]), None, "the enable register is beyond the last port");
}

#[test]
fn invalid_table_lengths_are_rejected() {
    for length in [0_u32, 1, 35, 36, 43, 65537, u32::MAX] {
        let mut madt = qemu_madt(1);
        madt[4..8].copy_from_slice(&length.to_le_bytes());
        assert_eq!(with_tables(&[sample::with_checksum(madt, 9)]), None, "{length}");
    }
    // Memory ends inside the table.
    let mut memory = acpi(1);
    let start = memory.high.windows(4).position(|window| window == b"APIC").unwrap();
    memory.high.truncate(start + 60);
    assert_eq!(platform_info(&memory, None), None);
}

#[test]
fn root_table_that_lists_itself_terminates() {
    let mut memory = TestMemory::new();
    let address = memory.add(&sample::rsdt(&[HIGH; 1000]));
    memory.write(POINTER, &pointer(address, None));
    assert_eq!(platform_info(&memory, Some(POINTER)), None);
    assert!(memory.read.get() < 1 << 20);
}
