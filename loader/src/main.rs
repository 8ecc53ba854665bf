//! Boots an image under QEMU, Firecracker, Cloud Hypervisor, or any loader that speaks multiboot.
//!
//! The machine monitor starts the loader in 32-bit mode ([`entry`]) and tells it by [multiboot] or [PVH] what
//! memory there is, where the image lies and what the command line says. The loader checks the image, places it
//! with [`hermit_boot`], and enters the kernel in it. What goes wrong is said in one line on the serial port, and
//! ends the machine with status 125.
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

use hermit_boot::{LoadError, Loaded};
use hermit_interface::address::AddressRange;
use hermit_interface::image;

use crate::protocol::Machine;
use crate::report::fail;

/// Memory that every PC reserves for itself ends here.
const LOW_END: u64 = 1 << 20;

/// What [`entry`] maps: one to one, up to here.
const MAPPED_END: u64 = 4 << 30;

/// Runs once the processor is in 64-bit mode; `magic` and `info` are what the machine monitor left in `eax` and
/// `ebx`.
extern "C" fn main(magic: u32, info: u32) -> ! {
    let machine = if magic == multiboot::MAGIC { multiboot::read(info) } else { pvh::read(info) };
    let Some(machine) = machine else { fail(format_args!("started neither by multiboot nor by PVH")) };
    let Some(payload) = payload::embedded().or(machine.module) else {
        fail(format_args!("no image: give one with -initrd"))
    };
    // SAFETY: the payload is RAM that the machine monitor filled before the loader ran; nobody writes it while
    // this reference lives, which is until the image is placed, since it is not in the free memory.
    let bytes = unsafe { memory::bytes(payload) };
    let image = match image::check(bytes) {
        Ok(image) => image,
        Err(error) => fail(format_args!("{error}")),
    };
    match place(&machine, payload, &image) {
        Ok((loaded, info)) => {
            // SAFETY: `place` mapped the loader one to one, the image at the entry point, and wrote the boot
            // information, in the tables that it made.
            unsafe { entry::enter(loaded.0, loaded.1, info) }
        }
        Err(error) => fail(format_args!("{error}")),
    }
}

/// Returns the entry point with the page tables' root, and the address of the boot information.
fn place(
    machine: &Machine,
    payload: AddressRange,
    image: &image::Image<'_>,
) -> Result<((u64, u64), u64), LoadError> {
    let mut memory = memory::Identity;
    let loader = entry::extent();
    let mut free = machine.free.clone();
    // What the loader writes must be mapped, and low memory is left to the kernel, which starts CPUs there.
    let mut later = hermit_boot::FreeMemory::new();
    for &range in machine.free.as_slice() {
        let low = AddressRange { end: range.end.min(LOW_END), ..range };
        let high = AddressRange { start: range.start.max(MAPPED_END), ..range };
        for part in [low, high] {
            // The table was large enough for the whole ranges; a full one loses memory, no more.
            let _: Result<(), hermit_memory::ranges::FreeError> = later.free(part);
            let _: Result<(), hermit_memory::ranges::FreeError> = free.remove(part);
        }
    }
    // The command line is copied last, so it too must outlive everything that is put into free memory.
    let in_use = [loader, payload, memory::range_of(machine.command_line)].map(memory::whole_pages);
    for range in in_use {
        free.remove(range).map_err(|_| LoadError::OutOfMemory)?;
    }
    let random = random::randomness();
    let mut loaded: Loaded = hermit_boot::load(&mut memory, &mut free, image, random, loader.end)?;
    loaded.info.rsdp = machine.rsdp;
    let enter = (loaded.entry, loaded.info.page_table_root);
    for range in in_use {
        // Not what lies in memory that was never usable; and low memory is given back as a whole already.
        let usable =
            machine.free.as_slice().iter().any(|free| free.start <= range.start && range.end <= free.end);
        if usable {
            let _: Result<(), hermit_memory::ranges::FreeError> = later.free(range);
        }
    }
    symbols::keep(image, &mut loaded, &mut memory, &mut free, &mut later);
    let info = loaded.hand_over(&mut memory, &mut free, later.as_slice(), &[], machine.command_line)?;
    Ok((enter, info))
}
