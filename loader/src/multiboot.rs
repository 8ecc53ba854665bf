//! Multiboot (specification 0.6.96): the header that boot loaders search for, and the information that they
//! pass.

use hermit_boot::FreeMemory;
use hermit_interface::address::AddressRange;
use zerocopy::FromBytes;

use crate::memory;
use crate::protocol::{BootParameters, USABLE, add_usable};

/// Value of `eax` at entry from a multiboot boot loader (§3.2).
pub(crate) const MAGIC: u32 = 0x2bad_b002;

const HEADER_MAGIC: u32 = 0x1bad_b002;

/// Bit 1 requires memory information. Bit 16 declares the header's address fields valid: the boot loader then
/// copies the file as it is, and the file need not be ELF32 (§3.1.2).
const HEADER_FLAGS: u32 = 1 << 1 | 1 << 16;

// The header (§3.1), in the first 8 KiB of the file: magic, flags, checksum, header_addr, load_addr,
// load_end_addr, bss_end_addr and entry_addr. Only the assembler can write addresses as 32-bit numbers. The
// boot loader places modules and command line after bss_end_addr, so that clearing the .bss does not
// overwrite them. `cargo xtask image` sets load_end_addr and bss_end_addr to 0, so that the whole file is
// loaded.
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

/// The multiboot information (§3.3), up to the last field that is used.
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
    _string: u32,
    _reserved: u32,
}

#[derive(FromBytes)]
#[repr(C, packed)]
struct MapEntry {
    /// Size of the entry without this field.
    size: u32,
    start: u64,
    length: u64,
    kind: u32,
}

/// Reads the multiboot information at `address`.
pub(crate) fn read(address: u32) -> Option<BootParameters> {
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
    let count = if info.flags & HAS_MODULES != 0 { info.module_count } else { 0 };
    let modules = [0, 1].map(|index| {
        let address = u64::from(info.modules) + u64::from(index) * size_of::<Module>() as u64;
        let read = || memory::read::<Module>(address);
        (index < count)
            .then(read)
            .map(|Module { start, end, .. }| AddressRange { start: start.into(), end: end.into() })
    });
    let has_line = info.flags & HAS_COMMAND_LINE != 0;
    let command_line = if has_line { memory::string(info.command_line.into()) } else { &[] };
    Some(BootParameters { free, modules, command_line, rsdp: 0 })
}
