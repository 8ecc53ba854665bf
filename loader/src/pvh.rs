//! PVH, the direct boot protocol of Xen, QEMU, Firecracker and Cloud Hypervisor (Xen's
//! `public/arch-x86/hvm/start_info.h`).

use hermit_boot::FreeMemory;
use hermit_interface::address::AddressRange;
use zerocopy::FromBytes;

use crate::memory;
use crate::protocol::{BootParameters, USABLE, add_usable};

const MAGIC: u32 = 0x336e_c578;

// The ELF note by which the VMM recognises a PVH kernel: owner "Xen", type 18 (XEN_ELFNOTE_PHYS32_ENTRY), the
// 32-bit physical address of the entry point.
core::arch::global_asm!(
    ".pushsection .note.pvh, \"a\", @note",
    ".balign 4",
    ".long 4, 4, 18",
    ".asciz \"Xen\"",
    ".long loader_entry",
    ".popsection",
);

#[derive(FromBytes)]
#[repr(C)]
struct StartInfo {
    magic: u32,
    version: u32,
    _flags: u32,
    module_count: u32,
    modules: u64,
    command_line: u64,
    rsdp: u64,
    map: u64,
    map_entries: u32,
    _reserved: u32,
}

#[derive(FromBytes)]
#[repr(C)]
struct Module {
    start: u64,
    size: u64,
    _command_line: u64,
    _reserved: u64,
}

#[derive(FromBytes)]
#[repr(C)]
struct MapEntry {
    start: u64,
    size: u64,
    kind: u32,
    _reserved: u32,
}

/// Reads the start information at `address`. Returns `None` if the magic number is wrong, or before version
/// 1, which added the memory map.
pub(crate) fn read(address: u32) -> Option<BootParameters> {
    let info: StartInfo = memory::read(address.into());
    if info.magic != MAGIC || info.version < 1 {
        return None;
    }
    let mut free = FreeMemory::new();
    for index in 0..u64::from(info.map_entries) {
        let entry: MapEntry = memory::read(info.map + index * size_of::<MapEntry>() as u64);
        if entry.kind == USABLE {
            add_usable(&mut free, entry.start, entry.size);
        }
    }
    let modules = [0, 1].map(|index| {
        let address = info.modules + u64::from(index) * size_of::<Module>() as u64;
        let read = || memory::read::<Module>(address);
        (index < info.module_count)
            .then(read)
            .map(|Module { start, size, .. }| AddressRange { start, end: start.saturating_add(size) })
    });
    let command_line = if info.command_line == 0 { &[] } else { memory::string(info.command_line) };
    Some(BootParameters { free, modules, command_line, rsdp: info.rsdp })
}
