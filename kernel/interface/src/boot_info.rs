//! What a loader or hypervisor tells the kernel.
//!
//! The kernel is entered at the image's entry point with the address of a [`BootInfo`] in the first argument
//! register (`rdi`), interrupts off, in 64-bit mode:
//!
//! - paging is on; [`BootInfo::page_table_root`] is in use and from now on the kernel's;
//! - the image is mapped at [`BootInfo::image`], each page with its segment's rights and none with both write
//!   and execute, and is relocated;
//! - physical address `a`, up to [`BootInfo::direct_map`]`.size`, is readable and writable at
//!   `direct_map.start + a`;
//! - the same is true of the pages that [`BootInfo::symbols`] touches, wherever they lie, and they are not free;
//! - the first 512 GiB of addresses are the loader's for its own last steps; the kernel unmaps them;
//! - the segment descriptors are the loader's; the kernel installs its own before it uses free memory;
//! - there need not be a stack.
//!
//! Behind the fixed part lie the free regions of physical memory, the devices that the machine has no other way to
//! announce, and the command line. All numbers are little-endian, addresses and sizes in bytes.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// "HERMITBI", the first eight bytes.
pub const MAGIC: u64 = u64::from_le_bytes(*b"HERMITBI");

/// A range of addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Region {
    /// First address.
    pub start: u64,
    /// Length in bytes.
    pub size: u64,
}

impl Region {
    /// The address after the last one.
    #[must_use]
    pub const fn end(self) -> u64 {
        self.start.saturating_add(self.size)
    }
}

/// Where the image was put.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Image {
    /// Where it runs: a random address.
    pub start: u64,
    /// Where it lies in physical memory, in one piece.
    pub physical: u64,
    /// Its size, in whole pages.
    pub size: u64,
}

/// The template of thread-local variables (ELF TLS, `PT_TLS`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Tls {
    /// Where the initial values lie in the mapped image.
    pub start: u64,
    /// How many bytes have an initial value; the rest is zero.
    pub file_size: u64,
    /// Size of a thread's variables.
    pub memory_size: u64,
    /// Alignment of a thread's variables; 0 if there are none.
    pub align: u64,
}

/// The names of the image's functions, where the image's file lies. Both empty if they were not kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Symbols {
    /// Physical addresses of the symbol table (`.symtab`).
    pub table: Region,
    /// Physical addresses of the strings that it refers to (`.strtab`).
    pub strings: Region,
}

/// A device behind virtio-mmio registers (virtio 1.2, section 4.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Device {
    /// Physical address and size of its registers.
    pub registers: Region,
    /// The interrupt line that it raises.
    pub line: u32,
    /// What kind of device it is (virtio 1.2, section 5); 0 if that is not known. If it is, the line is edge-triggered and no
    /// other device's, and the device does not wait for its interrupts to be acknowledged.
    pub kind: u32,
}

/// What runs the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Platform {
    /// A PC, or what looks like one: serial port, APIC, ACPI.
    Pc = 1,
    /// Our hypervisor: local APICs, but none of a PC's older parts ([`crate::machine`]).
    Uhyve = 2,
    /// The same as a process, without virtualisation hardware ([`crate::process`]).
    Process = 3,
}

impl Platform {
    /// The platform of this number, if there is one.
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

/// The fixed part.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct BootInfo {
    /// [`MAGIC`].
    pub magic: u64,
    /// [`crate::note::ABI_VERSION`] of who wrote this.
    pub version: u32,
    /// A [`Platform`].
    pub platform: u32,
    /// Where the image was put.
    pub image: Image,
    /// The template of thread-local variables.
    pub tls: Tls,
    /// Where physical address 0 is mapped, and how much of physical memory is mapped so far.
    pub direct_map: Region,
    /// Addresses that the kernel may map as it likes.
    pub free_addresses: Region,
    /// Physical address of the top page table.
    pub page_table_root: u64,
    /// Ticks of the time-stamp counter per second; 0 if unknown.
    pub tsc_frequency: u64,
    /// Nanoseconds since 1970 (UTC) when the counter stood at [`Self::wall_clock_tsc`]; 0 if unknown.
    pub wall_clock: u64,
    /// The time-stamp counter's value to which [`Self::wall_clock`] belongs.
    pub wall_clock_tsc: u64,
    /// Physical address of the ACPI root pointer; 0 if unknown.
    pub rsdp: u64,
    /// The names of the image's functions.
    pub symbols: Symbols,
    /// Random bytes from the host, of which the first [`Self::seed_size`] count.
    pub seed: [u8; 32],
    /// How many bytes of [`Self::seed`] are good; 0 if the host gave none.
    pub seed_size: u32,
    /// CPUs of the machine if their APICs have the identifiers from 0 on, else 0.
    pub cpus: u32,
    /// How many [`Region`]s of free physical memory follow.
    pub region_count: u32,
    /// How many [`Device`]s follow them.
    pub device_count: u32,
    /// Length of the command line after these.
    pub command_line_size: u32,
    /// Zero.
    pub reserved: u32,
}

/// Why bytes are no boot information.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BootInfoError {
    /// It does not start with the magic number.
    #[error("no boot information")]
    Magic,
    /// It was written by a loader or hypervisor of another version.
    #[error("boot information of ABI version {0}, expected {expected}", expected = crate::note::ABI_VERSION)]
    Version(u32),
    /// It is cut off or does not fit.
    #[error("boot information is too small for what it announces")]
    Truncated,
    /// It names a platform that this kernel does not know.
    #[error("unknown platform {0}")]
    Platform(u32),
}

/// Boot information as the kernel reads it.
#[derive(Clone, Copy, Debug)]
pub struct Parsed<'a> {
    /// The fixed part.
    pub fixed: &'a BootInfo,
    /// The platform, known to be valid.
    pub platform: Platform,
    /// Free physical memory, in ascending order, in whole pages.
    pub regions: &'a [Region],
    /// Devices behind virtio-mmio registers.
    pub devices: &'a [Device],
    /// The command line, see [`crate::command_line`].
    pub command_line: &'a [u8],
}

impl BootInfo {
    /// Bytes that the whole takes with so many regions and devices and so long a command line.
    #[must_use]
    pub const fn total_size(regions: usize, devices: usize, command_line: usize) -> usize {
        size_of::<Self>() + regions * size_of::<Region>() + devices * size_of::<Device>() + command_line
    }

    /// Bytes that the whole takes.
    #[must_use]
    pub const fn size(&self) -> usize {
        Self::total_size(
            self.region_count as usize,
            self.device_count as usize,
            self.command_line_size as usize,
        )
    }

    /// Hands everything to `sink`, part after part.
    ///
    /// # Errors
    ///
    /// [`BootInfoError::Truncated`] if a part is too long for its count.
    pub fn write(
        mut self,
        regions: &[Region],
        devices: &[Device],
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

    /// Reads boot information that starts at the start of `bytes`, which must be aligned to eight bytes.
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
        let (devices, rest) = <[Device]>::ref_from_prefix_with_elems(rest, fixed.device_count as usize)
            .map_err(|_| BootInfoError::Truncated)?;
        let command_line = rest.get(..fixed.command_line_size as usize).ok_or(BootInfoError::Truncated)?;
        Ok(Parsed { fixed, platform, regions, devices, command_line })
    }
}

#[cfg(test)]
mod tests {
    use super::{BootInfo, BootInfoError, Device, MAGIC, Platform, Region, Symbols};
    use zerocopy::FromZeros;

    #[repr(align(8))]
    struct Aligned([u8; 512]);

    fn written(fixed: BootInfo, regions: &[Region], devices: &[Device], line: &[u8]) -> Aligned {
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
    fn what_is_written_is_read_again() {
        let regions = [Region { start: 0x1000, size: 0x2000 }, Region { start: 0x10_0000, size: 0x1000 }];
        let symbols = Symbols { table: regions[1], strings: regions[0] };
        let devices = [Device { registers: Region { start: 1 << 40, size: 4096 }, line: 5, kind: 2 }];
        let bytes = written(BootInfo { symbols, ..valid() }, &regions, &devices, b"-- one");
        let parsed = BootInfo::parse(&bytes.0).unwrap();
        assert_eq!(parsed.fixed.symbols, symbols);
        assert_eq!(parsed.regions, regions);
        assert_eq!(parsed.devices, devices);
        assert_eq!(parsed.fixed.size(), BootInfo::total_size(2, 1, 6));
        assert_eq!(parsed.command_line, b"-- one");
        assert_eq!(parsed.platform, Platform::Pc);
    }

    #[test]
    fn foreign_bytes_are_refused() {
        let error = |fixed| BootInfo::parse(&written(fixed, &[], &[], b"").0).map(|_| ()).unwrap_err();
        assert_eq!(error(BootInfo::new_zeroed()), BootInfoError::Magic);
        assert_eq!(error(BootInfo { version: 99, ..valid() }), BootInfoError::Version(99));
        assert_eq!(error(BootInfo { platform: 99, ..valid() }), BootInfoError::Platform(99));
        assert_eq!(BootInfo::parse(&[0; 8]).map(|_| ()).unwrap_err(), BootInfoError::Truncated);
    }

    #[test]
    fn cut_off_bytes_are_refused() {
        let bytes = written(valid(), &[Region::default()], &[Device::default()], b"-- one two");
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
