//! Boot information: the data that a loader or hypervisor passes to the kernel.
//!
//! The kernel is entered at the image's entry point in 64-bit mode, with interrupts disabled and the address
//! of a [`BootInfo`] in the first argument register (`rdi`):
//!
//! - paging is enabled with the page tables at [`BootInfo::page_table_root`]; the kernel owns these tables
//!   from now on;
//! - the image is relocated and is mapped at [`BootInfo::image`]; each page has the access rights of its
//!   segment, and no page is both writable and executable;
//! - physical address `a`, up to [`BootInfo::direct_map`]`.size`, is readable at `direct_map.start + a`, and
//!   writable unless it is a part of the image that is not writable at its own address;
//! - the pages of [`BootInfo::symbols`] are readable in the same way, at any physical address; they are not
//!   free memory;
//! - the pages of [`BootInfo::initramfs`] are readable, too, and not writable;
//! - the first 512 GiB of virtual addresses belong to the loader, which runs there until it enters the
//!   kernel; the kernel unmaps them;
//! - the GDT is the loader's; the kernel must load its own GDT before it uses free memory;
//! - the stack pointer is undefined.
//!
//! The fixed part is followed by the free regions of physical memory, the virtio-mmio devices that no bus can
//! enumerate, and the command line. All numbers are little-endian, addresses and sizes in bytes.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::address::AddressRange;

/// Magic number: "HERMITBI", the first eight bytes.
pub const MAGIC: u64 = u64::from_le_bytes(*b"HERMITBI");

/// Bit of [`BootInfo::features`]: the guest may return free memory by [`crate::machine::RETURN_PORT`].
pub const TAKES_MEMORY_BACK: u32 = 1 << 0;

/// A region of addresses, by start and size: the layout in memory. For arithmetic see [`AddressRange`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Region {
    /// First address of the region.
    pub start: u64,
    /// Size in bytes.
    pub size: u64,
}

impl Region {
    /// First address after the region.
    #[must_use]
    pub const fn end(self) -> u64 {
        self.start.saturating_add(self.size)
    }
}

impl From<AddressRange> for Region {
    fn from(range: AddressRange) -> Self {
        Self { start: range.start, size: range.size() }
    }
}

impl From<Region> for AddressRange {
    fn from(region: Region) -> Self {
        Self { start: region.start, end: region.end() }
    }
}

/// Placement of the image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ImagePlacement {
    /// Virtual address of the image, which is random.
    pub start: u64,
    /// Physical address of the image, which is contiguous.
    pub physical: u64,
    /// Size in bytes, a multiple of the page size.
    pub size: u64,
}

/// The template of thread-local variables (ELF TLS, `PT_TLS`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Tls {
    /// Virtual address of the initial values, in the image.
    pub start: u64,
    /// Size of the initial values in bytes (`p_filesz`); the rest of a thread's block is zero.
    pub file_size: u64,
    /// Size of a thread's block in bytes (`p_memsz`).
    pub memory_size: u64,
    /// Alignment of a thread's block (`p_align`); 0 if the image has no thread-local variables.
    pub align: u64,
}

/// The symbol table in the image's file, for the names of functions. Both parts are empty if it was not kept
/// in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Symbols {
    /// Symbol table (`.symtab`), physical addresses.
    pub table: Region,
    /// String table of the symbol table (`.strtab`), physical addresses.
    pub strings: Region,
}

/// A virtio-mmio device (virtio 1.2, section 4.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct MmioDevice {
    /// Physical addresses of the registers.
    pub registers: Region,
    /// Interrupt line of the device.
    pub line: u32,
    /// Device ID (virtio 1.2, section 5); 0 if unknown. If known, the interrupt line is edge-triggered and
    /// not shared, and the device does not need its interrupts acknowledged.
    pub kind: u32,
}

/// Platform on which the kernel runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Platform {
    /// A PC-compatible machine: serial port, APIC, ACPI.
    Pc = 1,
    /// uhyve on KVM: local APICs, without legacy PC devices ([`crate::machine`]).
    Uhyve = 2,
    /// uhyve in a Linux process, without hardware virtualisation ([`crate::process`]).
    Process = 3,
}

impl Platform {
    /// The platform of this number; `None` if it is unknown.
    #[must_use]
    pub const fn from_number(number: u32) -> Option<Self> {
        match number {
            1 => Some(Self::Pc),
            2 => Some(Self::Uhyve),
            3 => Some(Self::Process),
            _ => None,
        }
    }
}

/// The fixed part of boot information.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct BootInfo {
    /// [`MAGIC`].
    pub magic: u64,
    /// [`crate::note::ABI_VERSION`] of the loader or hypervisor.
    pub version: u32,
    /// Number of the [`Platform`].
    pub platform: u32,
    /// Placement of the image.
    pub image: ImagePlacement,
    /// The template of thread-local variables.
    pub tls: Tls,
    /// The direct map: virtual address of physical address 0, and size of the physical memory that is mapped
    /// so far.
    pub direct_map: Region,
    /// Virtual addresses for the kernel's own mappings. Their number is a multiple of the memory's size.
    pub free_addresses: Region,
    /// Physical address of the top-level page table.
    pub page_table_root: u64,
    /// Frequency of the time-stamp counter in Hz; 0 if unknown.
    pub counter_frequency: u64,
    /// Wall clock in nanoseconds since 1970 (UTC) at the counter value [`Self::wall_clock_counter`]; 0 if
    /// unknown.
    pub wall_clock: u64,
    /// Value of the time-stamp counter at [`Self::wall_clock`].
    pub wall_clock_counter: u64,
    /// Physical address of the ACPI root system description pointer (RSDP); 0 if unknown.
    pub rsdp: u64,
    /// The image's symbol table.
    pub symbols: Symbols,
    /// Physical addresses of a tar archive ([`crate::tar`]) with the initramfs; empty without
    /// one.
    pub initramfs: Region,
    /// Entropy from the host: the first [`Self::seed_size`] bytes.
    pub seed: [u8; 32],
    /// Number of valid bytes in [`Self::seed`]; 0 if the host provides none.
    pub seed_size: u32,
    /// Number of CPUs if their APIC IDs are 0, 1, 2, …; else 0, and then firmware tables list the CPUs.
    pub cpus: u32,
    /// Number of [`Region`]s of free physical memory that follow.
    pub region_count: u32,
    /// Number of [`MmioDevice`]s that follow the regions.
    pub device_count: u32,
    /// Length of the command line, which follows the devices, in bytes.
    pub command_line_size: u32,
    /// Features of the hypervisor beyond those that this ABI version requires, such as [`TAKES_MEMORY_BACK`].
    /// Unknown bits are ignored. Hypervisors of earlier revisions of this version write 0.
    pub features: u32,
}

/// Why boot information is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BootInfoError {
    /// The magic number is missing.
    #[error("no boot information")]
    Magic,
    /// The ABI version of the loader or hypervisor differs.
    #[error("boot information of ABI version {0}, expected {expected}", expected = crate::note::ABI_VERSION)]
    Version(u32),
    /// The boot information is truncated, or a part is too long.
    #[error("boot information is too small for what it announces")]
    Truncated,
    /// The platform is unknown.
    #[error("unknown platform {0}")]
    Platform(u32),
}

/// Parsed boot information.
#[derive(Clone, Copy, Debug)]
pub struct Parsed<'a> {
    /// The fixed part.
    pub fixed: &'a BootInfo,
    /// The platform.
    pub platform: Platform,
    /// Free physical memory: whole pages, in ascending order.
    pub regions: &'a [Region],
    /// Virtio-mmio devices.
    pub devices: &'a [MmioDevice],
    /// The command line, see [`crate::command_line`].
    pub command_line: &'a [u8],
}

impl BootInfo {
    /// Total size in bytes, from the numbers of regions and devices and the length of the command line.
    #[must_use]
    pub const fn total_size(regions: usize, devices: usize, command_line: usize) -> usize {
        size_of::<Self>() + regions * size_of::<Region>() + devices * size_of::<MmioDevice>() + command_line
    }

    /// Total size in bytes.
    #[must_use]
    pub const fn size(&self) -> usize {
        Self::total_size(
            self.region_count as usize,
            self.device_count as usize,
            self.command_line_size as usize,
        )
    }

    /// Writes boot information by passing its parts to `sink` in order.
    ///
    /// # Errors
    ///
    /// [`BootInfoError::Truncated`] if a part is too long for its `u32` count.
    pub fn write(
        mut self,
        regions: &[Region],
        devices: &[MmioDevice],
        command_line: &[u8],
        mut sink: impl FnMut(&[u8]),
    ) -> Result<(), BootInfoError> {
        let count = |length: usize| u32::try_from(length).map_err(|_| BootInfoError::Truncated);
        self.region_count = count(regions.len())?;
        self.device_count = count(devices.len())?;
        self.command_line_size = count(command_line.len())?;
        for part in [self.as_bytes(), regions.as_bytes(), devices.as_bytes(), command_line] {
            sink(part);
        }
        Ok(())
    }

    /// Parses boot information at the start of `bytes`, which must be aligned to eight bytes.
    ///
    /// # Errors
    ///
    /// See [`BootInfoError`].
    pub fn parse(bytes: &[u8]) -> Result<Parsed<'_>, BootInfoError> {
        let (fixed, rest) = Self::ref_from_prefix(bytes).map_err(|_| BootInfoError::Truncated)?;
        if fixed.magic != MAGIC {
            return Err(BootInfoError::Magic);
        }
        if fixed.version != crate::note::ABI_VERSION {
            return Err(BootInfoError::Version(fixed.version));
        }
        let platform =
            Platform::from_number(fixed.platform).ok_or(BootInfoError::Platform(fixed.platform))?;
        let (regions, rest) = <[Region]>::ref_from_prefix_with_elems(rest, fixed.region_count as usize)
            .map_err(|_| BootInfoError::Truncated)?;
        let (devices, rest) = <[MmioDevice]>::ref_from_prefix_with_elems(rest, fixed.device_count as usize)
            .map_err(|_| BootInfoError::Truncated)?;
        let command_line = rest.get(..fixed.command_line_size as usize).ok_or(BootInfoError::Truncated)?;
        Ok(Parsed { fixed, platform, regions, devices, command_line })
    }
}

#[cfg(test)]
mod tests {
    use super::{BootInfo, BootInfoError, MAGIC, MmioDevice, Platform, Region, Symbols};
    use zerocopy::FromZeros;

    #[repr(align(8))]
    struct Aligned([u8; 512]);

    fn written(fixed: BootInfo, regions: &[Region], devices: &[MmioDevice], line: &[u8]) -> Aligned {
        let mut out = Aligned([0; 512]);
        let mut length = 0;
        let sink = |part: &[u8]| {
            out.0[length..length + part.len()].copy_from_slice(part);
            length += part.len();
        };
        fixed.write(regions, devices, line, sink).unwrap();
        out
    }

    fn valid() -> BootInfo {
        BootInfo {
            magic: MAGIC,
            version: crate::note::ABI_VERSION,
            platform: Platform::Pc as u32,
            ..BootInfo::new_zeroed()
        }
    }

    #[test]
    fn parse_reads_what_write_wrote() {
        let regions = [Region { start: 0x1000, size: 0x2000 }, Region { start: 0x10_0000, size: 0x1000 }];
        let symbols = Symbols { table: regions[1], strings: regions[0] };
        let devices = [MmioDevice { registers: Region { start: 1 << 40, size: 4096 }, line: 5, kind: 2 }];
        let initramfs = Region { start: 0x2000, size: 1024 };
        let bytes = written(BootInfo { symbols, initramfs, ..valid() }, &regions, &devices, b"-- one");
        let parsed = BootInfo::parse(&bytes.0).unwrap();
        assert_eq!((parsed.fixed.symbols, parsed.fixed.initramfs), (symbols, initramfs));
        assert_eq!(parsed.regions, regions);
        assert_eq!(parsed.devices, devices);
        assert_eq!(parsed.fixed.size(), BootInfo::total_size(2, 1, 6));
        assert_eq!(parsed.command_line, b"-- one");
        assert_eq!(parsed.platform, Platform::Pc);
    }

    #[test]
    fn parse_rejects_other_magic_version_and_platform() {
        let error = |fixed| BootInfo::parse(&written(fixed, &[], &[], b"").0).map(|_| ()).unwrap_err();
        assert_eq!(error(BootInfo::new_zeroed()), BootInfoError::Magic);
        assert_eq!(error(BootInfo { version: 99, ..valid() }), BootInfoError::Version(99));
        assert_eq!(error(BootInfo { platform: 99, ..valid() }), BootInfoError::Platform(99));
        assert_eq!(BootInfo::parse(&[0; 8]).map(|_| ()).unwrap_err(), BootInfoError::Truncated);
    }

    #[test]
    fn parse_rejects_truncated_bytes() {
        let bytes = written(valid(), &[Region::default()], &[MmioDevice::default()], b"-- one two");
        let total = BootInfo::total_size(1, 1, 10);
        assert!(BootInfo::parse(&bytes.0[..total]).is_ok());
        for length in 0..total {
            assert_eq!(
                BootInfo::parse(&bytes.0[..length]).map(|_| ()).unwrap_err(),
                BootInfoError::Truncated
            );
        }
    }
}
