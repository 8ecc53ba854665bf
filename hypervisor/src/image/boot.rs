//! Boot: loads an image into the VM's memory, with the boot information that its kernel needs.
//!
//! `hermit_boot` does most of the work, for uhyve and for the loader alike: it chooses random addresses,
//! copies and relocates the segments, and builds the page tables. This module adds the parts that only a
//! hypervisor has: the initramfs, the symbol table for backtraces, time, and a random seed. The
//! result is the state in which the boot CPU enters the kernel ([`KernelEntry`]).

use std::fs::File;
use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use hermit_boot::{FreeMemory, LoadError, LoadedImage, PhysicalMemory, Randomness};
use hermit_interface::address::PAGE_SIZE;
use hermit_interface::boot_info::{MmioDevice, Platform, Region, Symbols, TAKES_MEMORY_BACK};
use hermit_interface::image::{Image, Segment};
use rustix::io::Errno;

use crate::host::random;
use crate::memory::Memory;

/// The symbol table may take the free memory's size divided by this number.
const SYMBOLS_DIVISOR: u64 = 8;

/// A kernel in a process gets only the address range for its own mappings divided by this number: 96 times
/// the memory, and 1 GiB. This bounds the host's page tables for the guest (`docs/sandbox.md`). The range is
/// large enough, because Linux allows fewer mappings than fit there.
const PROCESS_DIVISOR: u64 = 4;

/// Why an image cannot be loaded into memory.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// The VM has too little memory.
    #[error("the machine has too little memory for the image: give it more with --memory")]
    OutOfMemory,
    /// The VM has too little memory for the initramfs.
    #[error("the machine has too little memory for the tree of files, {0} MiB: give it more with --memory")]
    Tree(u64),
    /// See [`LoadError`].
    #[error(transparent)]
    Load(LoadError),
    /// The code of the image cannot be copied to memory.
    #[error("the code of the image cannot be read: {0}")]
    Code(io::Error),
    /// The host's random number generator failed.
    #[error("the host's random number generator failed: {0}")]
    Random(io::Error),
}

impl From<LoadError> for BootError {
    fn from(error: LoadError) -> Self {
        if error == LoadError::OutOfMemory { Self::OutOfMemory } else { Self::Load(error) }
    }
}

/// Properties of the VM for the boot information.
#[derive(Debug)]
pub struct BootParams<'a> {
    /// File from which the image's executable segments are copied; `None` if the image in memory has them.
    pub code: Option<&'a File>,
    /// Platform of the kernel.
    pub platform: Platform,
    /// Number of CPUs.
    pub cpus: u32,
    /// Devices with virtio-mmio registers.
    pub devices: &'a [MmioDevice],
    /// Encoded command line ([`hermit_interface::command_line`]).
    pub command_line: &'a [u8],
    /// Tar archive of the initramfs. Empty without an initramfs.
    pub initramfs: &'a [u8],
    /// The guest's time-stamp counter.
    pub tsc: Tsc,
    /// Wall-clock time ([`wall_clock_ns`]) at the moment of `tsc`.
    pub wall_clock_ns: u64,
}

/// Time-stamp counter.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tsc {
    /// Frequency in Hz.
    pub frequency_hz: u64,
    /// Current value.
    pub value: u64,
}

/// State in which the boot CPU enters the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelEntry {
    /// Virtual address of the first instruction.
    pub rip: u64,
    /// Virtual address of the boot information, the kernel's argument.
    pub boot_info: u64,
    /// Physical address of the topmost page table.
    pub page_table_root: u64,
    /// Load address of the image: the virtual address of address 0 in its file.
    pub image: u64,
    /// Virtual address of the direct map, at which physical address 0 is mapped.
    pub direct_map: u64,
    /// Virtual addresses for the kernel's own mappings.
    pub free_addresses: Region,
}

/// Memory into which an image is loaded, and the file of its code.
struct Target<'a> {
    memory: &'a mut Memory,
    code: Option<&'a File>,
    /// Result of copying code so far.
    copied: io::Result<()>,
}

impl PhysicalMemory for Target<'_> {
    fn write(&mut self, address: u64, bytes: &[u8]) {
        self.memory.write(address, bytes);
    }

    fn write_contents(&mut self, address: u64, segment: &Segment<'_>) {
        match self.code.filter(|_| segment.execute && self.copied.is_ok()) {
            Some(file) => self.copied = self.memory.copy(address, file, segment.offset, segment.data.len()),
            None => self.write(address, segment.data),
        }
    }

    fn zero(&mut self, address: u64, size: u64) {
        self.memory.zero(address, size);
    }

    fn read_word(&self, address: u64) -> u64 {
        self.memory.read_word(address)
    }

    fn write_word(&mut self, address: u64, word: u64) {
        self.memory.write_word(address, word);
    }
}

/// Loads an image at a random address.
///
/// # Errors
///
/// See [`BootError`].
pub fn load(
    memory: &mut Memory,
    image: &Image<'_>,
    params: &BootParams<'_>,
) -> Result<KernelEntry, BootError> {
    let (mut free, later) = memory.free();
    let mut target = Target { memory, code: params.code, copied: Ok(()) };
    let mut loaded = hermit_boot::load(&mut target, &mut free, image, randomness()?, 0)?;
    target.copied.map_err(BootError::Code)?;
    keep_initramfs(memory, &mut free, params.initramfs, &mut loaded)?;
    keep_symbols(memory, &mut free, image, &mut loaded);
    let info = &mut loaded.info;
    info.platform = params.platform as u32;
    info.features = TAKES_MEMORY_BACK;
    if params.platform == Platform::Process {
        info.free_addresses.size = (info.free_addresses.size / PROCESS_DIVISOR) & !(PAGE_SIZE - 1);
    }
    info.counter_frequency = params.tsc.frequency_hz;
    info.wall_clock_counter = params.tsc.value;
    info.wall_clock = params.wall_clock_ns;
    info.cpus = params.cpus;
    random::fill(&mut info.seed).map_err(random_failed)?;
    info.seed_size = 32;
    let entry = KernelEntry {
        rip: loaded.entry,
        boot_info: 0,
        page_table_root: info.page_table_root,
        image: info.image.start,
        direct_map: info.direct_map.start,
        free_addresses: info.free_addresses,
    };
    let boot_info =
        loaded.hand_over(memory, &mut free, later.as_slice(), params.devices, params.command_line)?;
    Ok(KernelEntry { boot_info, ..entry })
}

/// Copies the initramfs to memory that the kernel keeps.
fn keep_initramfs(
    memory: &mut Memory,
    free: &mut FreeMemory,
    initramfs: &[u8],
    loaded: &mut LoadedImage,
) -> Result<(), BootError> {
    let size = initramfs.len() as u64;
    if size == 0 {
        return Ok(());
    }
    let start = free.allocate(size.next_multiple_of(PAGE_SIZE), PAGE_SIZE);
    let start = start.ok_or(BootError::Tree(size >> 20))?;
    PhysicalMemory::write(memory, start, initramfs);
    Ok(loaded.keep_initramfs(memory, free, Region { start, size })?)
}

/// Copies the symbol table to memory that the kernel keeps, if it takes a small part of the free memory.
/// Without it, the kernel's backtraces have only addresses.
fn keep_symbols(memory: &mut Memory, free: &mut FreeMemory, image: &Image<'_>, loaded: &mut LoadedImage) {
    let Some(symbols) = image.symbols() else { return };
    let size = |bytes: &[u8]| (bytes.len() as u64).next_multiple_of(PAGE_SIZE);
    if size(symbols.table) + size(symbols.strings) > free.total() / SYMBOLS_DIVISOR {
        return;
    }
    let mut keep = |bytes: &[u8]| {
        let start = free.allocate(size(bytes), PAGE_SIZE)?;
        PhysicalMemory::write(memory, start, bytes);
        Some(Region { start, size: bytes.len() as u64 })
    };
    if let (Some(table), Some(strings)) = (keep(symbols.table), keep(symbols.strings)) {
        // Fails if there is no memory for their page tables. Then the kernel has no symbols.
        let _: Result<(), LoadError> = loaded.keep_symbols(memory, free, Symbols { table, strings });
    }
}

fn random_failed(error: Errno) -> BootError {
    BootError::Random(error.into())
}

fn randomness() -> Result<Randomness, BootError> {
    let number = || random::word().map_err(random_failed);
    Ok(Randomness { image: number()?, direct_map: number()?, free_addresses: number()? })
}

/// Reads the host's wall clock: nanoseconds since 1970 (UTC), or 0 if it is set to an earlier date.
#[must_use]
pub fn wall_clock_ns() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_nanos()).unwrap_or_default()
}
