//! Placement and relocation of an image, and its boot information.
//!
//! The image is a position-independent executable. [`load`] copies its segments to free physical memory,
//! applies the relative relocations for a random virtual address, and builds page tables with three parts:
//! the image, each page with the access rights of its segment; the direct map of physical memory, in large
//! pages; and an identity map for the loader, which runs there when it switches the page tables. The image's
//! pages are also mapped in the direct map. Pages that are not writable in the image are not writable there,
//! either, so that no alias bypasses the access rights.
//!
//! The caller then adds what it has for the kernel, such as symbols and the initramfs, and at last
//! [`LoadedImage::hand_over`] writes the boot information. It comes last because it lists the free memory,
//! and every step before may allocate some.

use hermit_interface::address::{AddressRange, LARGE_PAGE_SIZE, PAGE_SIZE};
use hermit_interface::boot_info::{self, BootInfo, MmioDevice, Platform, Region, Symbols, Tls};
use hermit_interface::image::{Image, Segment};
use hermit_interface::{note, to_usize};
use hermit_paging::Access;
use zerocopy::FromZeros;

use crate::error::LoadError;
use crate::layout::{self, Randomness};
use crate::page_table::{PageTableBuilder, access};
use crate::{FreeMemory, MAX_REGIONS, PhysicalMemory};

/// Maximum size of physical memory that is mapped before the kernel runs, in bytes. The kernel maps more on
/// demand.
const DIRECT_MAP_SIZE: u64 = 1 << 30;

/// A loaded image.
#[derive(Debug)]
pub struct LoadedImage {
    /// Virtual address of the entry point.
    pub entry: u64,
    /// Boot information about the image; the caller fills in the fields about the machine.
    pub info: BootInfo,
}

/// Copies `image` to `free` memory, relocates it and maps it.
///
/// Physical addresses below `identity` are identity-mapped with all access rights, for a loader that runs
/// there when it switches to the new page tables.
///
/// # Errors
///
/// See [`LoadError`].
pub fn load(
    memory: &mut impl PhysicalMemory,
    free: &mut FreeMemory,
    image: &Image<'_>,
    random: Randomness,
    identity: u64,
) -> Result<LoadedImage, LoadError> {
    let memory_size = free.total();
    let last = free.as_slice().last().map_or(0, |range| range.end);
    let start = layout::image_start(random.image, image.align);
    let physical = free.allocate(image.size, PAGE_SIZE).ok_or(LoadError::OutOfMemory)?;
    for segment in image.segments() {
        copy(memory, physical, &segment);
    }
    image.for_each_relocation(|offset, addend| {
        memory.write_word(physical + offset, start.wrapping_add(addend));
    });
    let direct_map =
        Region { start: layout::direct_map_start(random.direct_map), size: last.min(DIRECT_MAP_SIZE) };
    let direct_map = Region { size: direct_map.size.next_multiple_of(LARGE_PAGE_SIZE), ..direct_map };

    let mut table = PageTableBuilder::new(memory, free)?;
    map_image(&mut table, image, start, physical)?;
    table.map_large(direct_map.start, 0, direct_map.size, Access::Write)?;
    protect_image(&mut table, image, direct_map.start + physical)?;
    table.map_large(0, 0, identity, Access::WriteExecute)?;
    let info = BootInfo {
        magic: boot_info::MAGIC,
        version: note::ABI_VERSION,
        platform: Platform::Pc as u32,
        image: boot_info::ImagePlacement { start, physical, size: image.size },
        tls: image.tls().map_or(Tls::default(), |tls| Tls {
            start: start + tls.start,
            file_size: tls.file_size,
            memory_size: tls.memory_size,
            align: tls.align,
        }),
        direct_map,
        free_addresses: layout::free_addresses(random.free_addresses, memory_size),
        page_table_root: table.root(),
        ..BootInfo::new_zeroed()
    };
    Ok(LoadedImage { entry: start + image.entry, info })
}

impl LoadedImage {
    /// Passes the image's symbol table to the kernel: adds it to boot information and maps it in the direct
    /// map. Its pages must not be free memory.
    ///
    /// # Errors
    ///
    /// See [`LoadError`]; then boot information has no symbol table.
    pub fn keep_symbols(
        &mut self,
        memory: &mut impl PhysicalMemory,
        free: &mut FreeMemory,
        symbols: Symbols,
    ) -> Result<(), LoadError> {
        let mut table = PageTableBuilder::at(memory, free, self.info.page_table_root);
        for range in [symbols.table, symbols.strings] {
            map_in_direct_map(&mut table, self.info.direct_map, range)?;
        }
        self.info.symbols = symbols;
        Ok(())
    }

    /// Passes the tar archive with the initramfs to the kernel: adds it to boot information and
    /// makes its pages readable in the direct map, not writable. None of them must be free memory, then or
    /// later.
    ///
    /// # Errors
    ///
    /// See [`LoadError`].
    pub fn keep_initramfs(
        &mut self,
        memory: &mut impl PhysicalMemory,
        free: &mut FreeMemory,
        initramfs: Region,
    ) -> Result<(), LoadError> {
        let mut table = PageTableBuilder::at(memory, free, self.info.page_table_root);
        map_in_direct_map(&mut table, self.info.direct_map, initramfs)?;
        let first = initramfs.start & !(PAGE_SIZE - 1);
        let size = initramfs.end().next_multiple_of(PAGE_SIZE) - first;
        table.protect(self.info.direct_map.start + first, size, Access::Read)?;
        self.info.initramfs = initramfs;
        Ok(())
    }

    /// Writes boot information, and returns its virtual address.
    ///
    /// `reclaim` lists memory that becomes free once the kernel runs: the loader itself, the image's file.
    ///
    /// # Errors
    ///
    /// See [`LoadError`].
    pub fn hand_over(
        self,
        memory: &mut impl PhysicalMemory,
        free: &mut FreeMemory,
        reclaim: &[AddressRange],
        devices: &[MmioDevice],
        command_line: &[u8],
    ) -> Result<u64, LoadError> {
        let size = BootInfo::total_size(MAX_REGIONS, devices.len(), command_line.len()) as u64;
        let address =
            free.allocate(size.next_multiple_of(PAGE_SIZE), PAGE_SIZE).ok_or(LoadError::OutOfMemory)?;
        for &range in reclaim {
            // A full table drops the range: the machine then has a little less memory.
            let _: Result<(), hermit_memory::ranges::FreeError> = free.free(range);
        }
        let mut regions = [Region::default(); MAX_REGIONS];
        for (region, &range) in regions.iter_mut().zip(free.as_slice()) {
            *region = range.into();
        }
        let mut at = address;
        let direct_map = self.info.direct_map.start;
        self.info
            .write(&regions[..free.as_slice().len()], devices, command_line, |part| {
                memory.write(at, part);
                at += part.len() as u64;
            })
            .map_err(|_| LoadError::CommandLine)?;
        Ok(direct_map + address)
    }
}

/// Maps the large pages that contain a physical range in the direct map. Pages below `direct_map.size` are
/// already mapped.
fn map_in_direct_map<M: PhysicalMemory>(
    table: &mut PageTableBuilder<'_, M>,
    direct_map: Region,
    range: Region,
) -> Result<(), LoadError> {
    let first = (range.start & !(LARGE_PAGE_SIZE - 1)).max(direct_map.size);
    for page in (first..range.end()).step_by(to_usize(LARGE_PAGE_SIZE)) {
        table.map_large_if_unmapped(direct_map.start + page, page)?;
    }
    Ok(())
}

fn copy(memory: &mut impl PhysicalMemory, physical: u64, segment: &Segment<'_>) {
    let start = physical + segment.start;
    let filled = segment.data.len() as u64;
    memory.write_contents(start, segment);
    // Zeros extend to the end of the last page, so that the image does not see earlier contents.
    let end = (segment.start + segment.size).next_multiple_of(PAGE_SIZE);
    memory.zero(start + filled, end - segment.start - filled);
}

fn map_image<M: PhysicalMemory>(
    table: &mut PageTableBuilder<'_, M>,
    image: &Image<'_>,
    start: u64,
    physical: u64,
) -> Result<(), LoadError> {
    for run in page_runs(image) {
        table.map(start + run.start, physical + run.start, run.size, run.access)?;
    }
    Ok(())
}

/// Takes write access to those pages of the image, mapped at `start` in the direct map, that are not writable
/// at the image's own addresses.
fn protect_image<M: PhysicalMemory>(
    table: &mut PageTableBuilder<'_, M>,
    image: &Image<'_>,
    start: u64,
) -> Result<(), LoadError> {
    for run in page_runs(image).filter(|run| run.access != Access::Write) {
        table.protect(start + run.start, run.size, Access::Read)?;
    }
    Ok(())
}

/// Successive pages of the image that allow the same access.
#[derive(Clone, Copy, Debug)]
struct PageRun {
    /// Offset of the first page from the image's start.
    start: u64,
    /// Size in bytes, not 0.
    size: u64,
    access: Access,
}

/// Returns all pages of the image. Each segment is divided into the pages before, in and after the part that
/// is read-only after relocation.
fn page_runs(image: &Image<'_>) -> impl Iterator<Item = PageRun> {
    let (relro_start, relro_end) = image.read_only_after_relocation().unwrap_or((0, 0));
    image.segments().flat_map(move |segment| {
        let first = segment.start & !(PAGE_SIZE - 1);
        let last = (segment.start + segment.size).next_multiple_of(PAGE_SIZE);
        let relro = relro_start.clamp(first, last);
        let rest = relro_end.clamp(relro, last);
        let run = move |start: u64, end: u64, write| PageRun {
            start,
            size: end - start,
            access: access(write, segment.execute),
        };
        let runs =
            [run(first, relro, segment.write), run(relro, rest, false), run(rest, last, segment.write)];
        runs.into_iter().filter(|run| run.size != 0)
    })
}

#[cfg(test)]
mod tests;
