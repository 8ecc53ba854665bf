//! An image in memory, with everything that its kernel must know.

use std::time::{SystemTime, UNIX_EPOCH};

use hermit_boot::{FreeMemory, LoadError, Loaded, Randomness};
use hermit_interface::address::PAGE_SIZE;
use hermit_interface::boot_info::{Device, Platform, Region, Symbols};
use hermit_interface::image::Image;

use crate::memory::Memory;

/// One part in so many of the memory may hold names of functions.
const SHARE: u64 = 8;

/// Why an image cannot be put into memory.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// The machine has too little memory.
    #[error("the machine has too little memory for the image: give it more with --memory")]
    OutOfMemory,
    /// See [`LoadError`].
    #[error(transparent)]
    Load(LoadError),
    /// The host gives no random numbers.
    #[error("the host gives no random numbers: {0}")]
    Random(getrandom::Error),
}

impl From<LoadError> for BootError {
    fn from(error: LoadError) -> Self {
        if error == LoadError::OutOfMemory { Self::OutOfMemory } else { Self::Load(error) }
    }
}

/// What the kernel is told about the machine.
#[derive(Debug)]
pub struct Facts<'a> {
    /// What runs the kernel.
    pub platform: Platform,
    /// How many processors there are.
    pub cpus: u32,
    /// Devices behind virtio-mmio registers.
    pub devices: &'a [Device],
    /// The command line ([`hermit_interface::command_line`]).
    pub command_line: &'a [u8],
    /// The time-stamp counter as the guest sees it.
    pub tsc: Tsc,
    /// The date when the counter showed that: [`now`].
    pub date: u64,
}

/// A time-stamp counter.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tsc {
    /// Ticks per second.
    pub frequency: u64,
    /// What it shows now.
    pub now: u64,
}

/// How the first processor enters the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The first instruction.
    pub instruction: u64,
    /// The address of the boot information, for the first argument's register.
    pub boot_info: u64,
    /// The physical address of the topmost page table.
    pub page_table_root: u64,
    /// Where the image lies in virtual memory: what its file calls address 0.
    pub image: u64,
    /// Where physical address 0 is in virtual memory.
    pub direct_map: u64,
}

/// Puts an image into memory at a random address.
///
/// # Errors
///
/// See [`BootError`].
pub fn load(memory: &mut Memory, image: &Image<'_>, facts: &Facts<'_>) -> Result<Entry, BootError> {
    let (mut free, later) = memory.free();
    let mut loaded = hermit_boot::load(memory, &mut free, image, randomness()?, 0)?;
    keep_symbols(memory, &mut free, image, &mut loaded);
    let info = &mut loaded.info;
    info.platform = facts.platform as u32;
    info.tsc_frequency = facts.tsc.frequency;
    info.wall_clock_tsc = facts.tsc.now;
    info.wall_clock = facts.date;
    info.cpus = facts.cpus;
    getrandom::fill(&mut info.seed).map_err(BootError::Random)?;
    info.seed_size = 32;
    let entry = Entry {
        instruction: loaded.entry,
        boot_info: 0,
        page_table_root: info.page_table_root,
        image: info.image.start,
        direct_map: info.direct_map.start,
    };
    let boot_info =
        loaded.hand_over(memory, &mut free, later.as_slice(), facts.devices, facts.command_line)?;
    Ok(Entry { boot_info, ..entry })
}

/// Copies the names of functions to memory that stays the kernel's, if there is some to spare. Without them the kernel
/// prints numbers.
fn keep_symbols(memory: &mut Memory, free: &mut FreeMemory, image: &Image<'_>, loaded: &mut Loaded) {
    let Some(symbols) = image.symbols() else { return };
    let size = |bytes: &[u8]| (bytes.len() as u64).next_multiple_of(PAGE_SIZE);
    if size(symbols.table) + size(symbols.strings) > free.total() / SHARE {
        return;
    }
    let mut keep = |bytes: &[u8]| {
        let start = free.allocate(size(bytes), PAGE_SIZE)?;
        hermit_boot::PhysicalMemory::write(memory, start, bytes);
        Some(Region { start, size: bytes.len() as u64 })
    };
    if let (Some(table), Some(strings)) = (keep(symbols.table), keep(symbols.strings)) {
        // Without memory for page tables there are no names.
        let _: Result<(), LoadError> = loaded.keep_symbols(memory, free, Symbols { table, strings });
    }
}

fn randomness() -> Result<Randomness, BootError> {
    let number = || getrandom::u64().map_err(BootError::Random);
    Ok(Randomness { image: number()?, direct_map: number()?, free_addresses: number()? })
}

/// Nanoseconds since 1970 (UTC); 0 if the host's clock is set to before.
#[must_use]
pub fn now() -> u64 {
    let passed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(passed.as_nanos()).unwrap_or_default()
}
