//! The devices of the machine, found and taken into use when somebody needs them.

mod block;
mod console;
mod entropy;
mod found;
mod network;

use alloc::sync::Arc;
use alloc::vec::Vec;

use hermit_hal::boot::Boot;
use hermit_hal::devices::Pages;
use hermit_interface::command_line::CommandLine;
use hermit_interface::{Errno, boot_info};
use hermit_io::Object;
use hermit_virtio::Id;
use spin::Once;

pub(crate) use console::{VirtioConsole, console};
pub(crate) use entropy::seed;
use found::{Found, Transport};
pub(crate) use network::{init as init_network, network};

use crate::interrupts::{self, Handler};

/// Folder of the devices.
const FOLDER: &[u8] = b"/dev/";

/// What the loader said about devices.
static ANNOUNCED: Once<Vec<boot_info::Device>> = Once::new();

/// What has been found.
static FOUND: Once<Vec<Found>> = Once::new();

/// Notes what the loader said, and takes a console into use if that is to be one.
pub(crate) fn init(boot: &Boot, line: &CommandLine) {
    let devices = boot.info.devices.iter().chain(&line.devices);
    ANNOUNCED.call_once(|| devices.copied().collect());
    let kind = u32::from(u8::from(Id::Console));
    if line.virtio_console || boot.info.devices.iter().any(|device| device.kind == kind) {
        console::init();
    }
}

/// The device of a kind with this number among them.
fn find(kind: Id, number: usize) -> Option<&'static Found> {
    let found = FOUND.call_once(|| found::all(ANNOUNCED.get().map_or(&[], Vec::as_slice)));
    let kind = u16::from(u8::from(kind));
    found.iter().filter(|found| found.kind() == kind).nth(number)
}

/// Moves a driver to where it stays for ever, and registers it as the handler of its device's interrupt line.
fn install<D: Handler>(driver: D, line: u8) -> Option<&'static D> {
    let driver = hermit_hal::memory::leak(driver)?;
    interrupts::register(line, driver).ok()?;
    Some(driver)
}

/// Opens a device by its name in the file system.
///
/// # Errors
///
/// `ENOENT` if there is none, `EACCES` if it may not be used in this way, or what its driver says.
pub(crate) fn open(path: &[u8], flags: i32) -> Result<Arc<dyn Object>, Errno> {
    let name = path.strip_prefix(FOLDER).ok_or(Errno::ENOENT)?;
    match name {
        b"hwrng" => entropy::open(flags),
        _ => block::open(block::number(name).ok_or(Errno::ENOENT)?, flags),
    }
}
