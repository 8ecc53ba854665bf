//! Boots an image under QEMU, Firecracker, Cloud Hypervisor, or any loader that speaks multiboot.
//!
//! The VMM starts the loader in 32-bit mode ([`entry`]). By [multiboot] or [PVH] it passes a memory map, the
//! address of modules and the command line. The first module is the image, and the second module is a tar
//! archive with the initramfs. A boot image contains the image, and perhaps such a initramfs. Then the
//! first module, if there is one, replaces the initramfs. The loader checks the image, places it with
//! [`hermit_boot`] at a random address, and jumps to the kernel's entry point in it. On an error, the loader
//! prints one line to the serial port of standard error, and ends the machine with status 125.
//!
//! | module | what |
//! | --- | --- |
//! | [`entry`] | assembly: from 32-bit to 64-bit mode, and into the kernel |
//! | [`multiboot`], [`pvh`] | the two boot protocols |
//! | [`protocol`] | what both pass to the loader, in one type |
//! | [`payload`] | what `cargo xtask image` has appended: the image, a initramfs of files |
//! | [`memory`] | access to physical memory |
//! | [`random`] | random numbers for the address space layout |
//! | [`symbols`] | the image's symbol table, for backtraces |
//! | [`report`] | error messages, and the end of the machine |
//!
//! [PVH]: pvh
#![no_std]
#![no_main]

mod entry;
mod memory;
mod multiboot;
mod payload;
mod protocol;
mod pvh;
mod random;
mod report;
mod symbols;

use hermit_boot::{LoadError, LoadedImage};
use hermit_interface::address::AddressRange;
use hermit_interface::image;

use crate::protocol::BootParameters;
use crate::report::fail;

/// End of low memory. The loader leaves low memory to the kernel, which starts CPUs there, unless the rest of
/// memory is too small.
const LOW_MEMORY_END: u64 = 1 << 20;

/// End of the low memory that the loader always leaves to the kernel. A single page is enough to start CPUs.
const STARTUP_MEMORY_END: u64 = 64 << 10;

/// End of the identity mapping that [`entry`] makes.
const IDENTITY_MAP_END: u64 = 4 << 30;

/// Entry point in 64-bit mode. `magic` and `info` are the values that the VMM has passed in `eax` and `ebx`.
extern "C" fn main(magic: u32, info: u32) -> ! {
    let parameters = if magic == multiboot::MAGIC { multiboot::read(info) } else { pvh::read(info) };
    let Some(parameters) = parameters else { fail(format_args!("started neither by multiboot nor by PVH")) };
    let [first, second] = parameters.modules;
    let (payload, initramfs) = match payload::embedded() {
        [Some(image), initramfs] => (Some(image), first.or(initramfs)),
        [None, _] => (first, second),
    };
    let Some(payload) = payload else { fail(format_args!("no image: give one with -initrd")) };
    // SAFETY: the payload is RAM that the VMM has filled before the loader ran. The loader writes only to
    // itself and to free memory, from which `place` excludes the payload.
    let bytes = unsafe { memory::bytes(payload) };
    let image = match image::check(bytes) {
        Ok(image) => image,
        Err(error) => fail(format_args!("{error}")),
    };
    if let Some(initramfs) = initramfs
        && !memory::is_usable(&parameters.free, initramfs)
    {
        fail(format_args!(
            "the machine has too little memory for the tree of files, {} MiB",
            initramfs.size() >> 20
        ));
    }
    let place = |first| place(&parameters, payload, initramfs, &image, first);
    let placed = match place(LOW_MEMORY_END) {
        Err(LoadError::OutOfMemory) => place(STARTUP_MEMORY_END),
        placed => placed,
    };
    match placed {
        Ok((loaded, info)) => {
            // SAFETY: the page tables that `place` has returned map the loader one to one and the image at
            // the entry point, and the boot information is written: that is what `hermit_boot` does.
            unsafe { entry::enter(loaded.0, loaded.1, info) }
        }
        Err(error) => fail(format_args!("{error}")),
    }
}

/// Places the image, and keeps the initramfs where it is. Uses only memory at the address `first` and above.
/// Returns the image's entry point, the root of the page tables, and the address of the boot information.
fn place(
    parameters: &BootParameters,
    payload: AddressRange,
    initramfs: Option<AddressRange>,
    image: &image::Image<'_>,
    first: u64,
) -> Result<((u64, u64), u64), LoadError> {
    let mut memory = memory::IdentityMapped;
    let loader = entry::extent();
    let mut free = parameters.free.clone();
    // The loader uses only memory that the identity mapping covers. The kernel also gets the rest.
    let mut later = hermit_boot::FreeMemory::new();
    for &range in parameters.free.as_slice() {
        let low = AddressRange { end: range.end.min(first), ..range };
        let high = AddressRange { start: range.start.max(IDENTITY_MAP_END), ..range };
        for part in [low, high] {
            // If the table is full, the range is lost: the kernel has less memory.
            let _: Result<(), hermit_memory::ranges::FreeError> = later.free(part);
            let _: Result<(), hermit_memory::ranges::FreeError> = free.remove(part);
        }
    }
    // The command line is copied last, so it must not be overwritten before that.
    let in_use = [loader, payload, memory::range_of(parameters.command_line)].map(memory::whole_pages);
    for range in in_use {
        free.remove(range).map_err(|_| LoadError::OutOfMemory)?;
    }
    let initramfs = initramfs.map(|initramfs| (initramfs, memory::whole_pages(initramfs)));
    if let Some((_, pages)) = initramfs {
        free.remove(pages).map_err(|_| LoadError::OutOfMemory)?;
    }
    let random = random::randomness();
    let mut loaded: LoadedImage = hermit_boot::load(&mut memory, &mut free, image, random, loader.end)?;
    loaded.info.rsdp = parameters.rsdp;
    let enter = (loaded.entry, loaded.info.page_table_root);
    for range in in_use {
        // Ranges outside of usable memory are not freed; memory below `first` has been freed as a whole.
        if memory::is_usable(&parameters.free, range) {
            let _: Result<(), hermit_memory::ranges::FreeError> = later.free(range);
        }
    }
    if let Some((initramfs, pages)) = initramfs {
        // The initramfs may share a page with memory that was just freed.
        later.remove(pages).map_err(|_| LoadError::OutOfMemory)?;
        loaded.keep_initramfs(&mut memory, &mut free, initramfs.into())?;
    }
    symbols::keep(image, &mut loaded, &mut memory, &mut free, &mut later);
    let info = loaded.hand_over(&mut memory, &mut free, later.as_slice(), &[], parameters.command_line)?;
    Ok((enter, info))
}
