//! Multiboot (specification 0.6.96): the header that machine monitors look for, and what they leave in memory.

use hermit_boot::FreeMemory;
use hermit_interface::address::AddressRange;
use zerocopy::FromBytes;

use crate::memory;
use crate::protocol::{Machine, USABLE, add_usable};

/// In `eax` when a multiboot loader starts us.
pub(crate) const MAGIC: u32 = 0x2bad_b002;

const HEADER_MAGIC: u32 = 0x1bad_b002;

/// "Memory information is required" and "the address fields are valid": the file is copied as it is, which
/// spares us an ELF32 file.
const HEADER_FLAGS: u32 = 1 << 1 | 1 << 16;

// What a multiboot loader looks for in the first 8 KiB of the file: magic, flags, checksum, then the addresses of this
// header, of the start to load to, of the end of what is loaded, of the end of the zeroed part behind it, and of the
// entry, which only the assembler can write as 32-bit numbers. Modules and command line are put behind the last end:
// were the zeroed part not named, the loader would clear them. `cargo xtask image` makes both ends 0, "the whole file".
core::arch::global_asm!(
    ".pushsection .multiboot, \"a\", @progbits",
    ".balign 8",
    "multiboot_header:",
    ".long {magic}, {flags}, {checksum}",
    ".long multiboot_header, loader_start, loader_data_end, loader_end, loader_entry",
    ".popsection",
    magic = const HEADER_MAGIC,
    flags = const HEADER_FLAGS,
    checksum = const HEADER_MAGIC.wrapping_add(HEADER_FLAGS).wrapping_neg(),
);

const HAS_COMMAND_LINE: u32 = 1 << 2;
const HAS_MODULES: u32 = 1 << 3;
const HAS_MEMORY_MAP: u32 = 1 << 6;

/// Section 3.3, as far as it is used.
#[derive(FromBytes)]
#[repr(C)]
struct Info {
    flags: u32,
    _memory: [u32; 2],
    _boot_device: u32,
    command_line: u32,
    module_count: u32,
    modules: u32,
    _symbols: [u32; 4],
    map_size: u32,
    map: u32,
}

#[derive(FromBytes)]
#[repr(C)]
struct Module {
    start: u32,
    end: u32,
}

#[derive(FromBytes)]
#[repr(C, packed)]
struct MapEntry {
    /// Of the rest of this entry.
    size: u32,
    start: u64,
    length: u64,
    kind: u32,
}

/// Reads what a multiboot loader left at `address`.
pub(crate) fn read(address: u32) -> Option<Machine> {
    let info: Info = memory::read(address.into());
    let mut free = FreeMemory::new();
    if info.flags & HAS_MEMORY_MAP == 0 {
        return None;
    }
    let mut offset = 0;
    while offset < info.map_size {
        let entry: MapEntry = memory::read(u64::from(info.map) + u64::from(offset));
        if entry.kind == USABLE {
            add_usable(&mut free, entry.start, entry.length);
        }
        offset = offset.saturating_add(entry.size).saturating_add(4);
    }
    let module = (info.flags & HAS_MODULES != 0 && info.module_count > 0).then(|| {
        let module: Module = memory::read(info.modules.into());
        AddressRange { start: module.start.into(), end: module.end.into() }
    });
    let has_line = info.flags & HAS_COMMAND_LINE != 0;
    let command_line = if has_line { memory::string(info.command_line.into()) } else { &[] };
    Some(Machine { free, module, command_line, rsdp: 0 })
}
