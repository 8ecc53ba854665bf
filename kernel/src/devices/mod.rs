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
use hermit_hal::interrupts;
use hermit_hal::sync::SpinLock;
use hermit_interface::command_line::CommandLine;
use hermit_interface::{Errno, boot_info};
use hermit_io::Object;
use hermit_virtio::Id;
use spin::Once;

pub(crate) use console::{VirtioConsole, console};
pub(crate) use entropy::seed;
use found::{Found, Transport};
pub(crate) use network::{init as init_network, network};

/// Folder of the devices.
const FOLDER: &[u8] = b"/dev/";

/// What an interrupt is for.
trait Driver: Sync {
    /// The device may have raised its line.
    fn interrupt(&self);
}

/// Drivers by the lines of their devices. Several devices may share a line.
static DRIVERS: SpinLock<Vec<(u8, &'static dyn Driver)>> = SpinLock::new(Vec::new());

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

/// Puts a driver into place, where it stays, and lets its interrupts through.
fn install<D: Driver>(driver: D, line: u8) -> Option<&'static D> {
    let driver = hermit_hal::memory::leak(driver)?;
    let mut drivers = DRIVERS.lock();
    drivers.try_reserve(1).ok()?;
    drivers.push((line, driver));
    drop(drivers);
    if line < interrupts::TIMER {
        interrupts::enable_line(line);
    }
    Some(driver)
}

/// Handles an interrupt; `false` if its line is no driver's. Interrupts are masked.
pub(crate) fn interrupt(line: u8) -> bool {
    // Drivers wake threads: not while the table is locked.
    let driver = |number| DRIVERS.lock().get(number).copied();
    let mut is_known = false;
    for (_, driver) in (0..).map_while(driver).filter(|(other, _)| *other == line) {
        driver.interrupt();
        is_known = true;
    }
    is_known
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
