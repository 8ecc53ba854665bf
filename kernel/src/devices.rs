//! Devices. A device is initialised when it is first used. Discovery, too, happens only when a device is
//! first needed.
//!
//! The drivers of `hermit-virtio` are state machines that never wait. The types of this module put a lock
//! around a driver, handle its device's interrupt and make threads wait.

mod balloon;
mod block;
mod console;
mod discovery;
mod driver_memory;
mod entropy;
mod files;
mod network;
mod virtio_fs;

use alloc::vec::Vec;

use hermit_hal::boot::Boot;
use hermit_hal::devices::Pages;
use hermit_hal::interrupts::{Masked, TIMER};
use hermit_hal::once::Once;
use hermit_interface::command_line::CommandLine;
use hermit_interface::{Errno, boot_info};
use hermit_virtio::Id;
use hermit_virtio::device::InitError;

pub(crate) use balloon::{is_present as has_balloon, report as report_free_memory};
pub(crate) use console::{
    OutputDevice, VirtioConsole, flush_consoles, input_console, is_driverless, output_device,
};
use discovery::{DiscoveredDevice, Transport};
use driver_memory::DriverMemory;
pub(crate) use entropy::seed;
pub(crate) use files::DeviceFiles;
pub(crate) use network::{init as init_network, network};
pub(crate) use virtio_fs::{FuseTransport, start_all as start_folders};

use crate::interrupts::{self, InterruptHandler};
use crate::sync::OnceLock;

/// Virtio-mmio devices from the boot information and the command line.
static MMIO_DEVICES: Once<Vec<boot_info::MmioDevice>> = Once::new();

static DISCOVERED: OnceLock<Vec<DiscoveredDevice>> = OnceLock::new();

/// Stores the locations of the virtio-mmio devices, and the choice of the machine's console.
pub(crate) fn init(boot: &Boot, line: &CommandLine) {
    MMIO_DEVICES.call_once(|| [boot.info.devices, &line.devices].concat());
    let console = u32::from(u8::from(Id::Console));
    if line.virtio_console || boot.info.devices.iter().any(|device| device.kind == console) {
        console::init();
    } else if line.virtio_stdin {
        console::request_input();
    }
}

/// Finds the device number `index` among the devices with a device ID.
///
/// # Errors
///
/// `ENOENT` if there is no such device, `ENOMEM`.
fn find(id: Id, index: usize) -> Result<&'static DiscoveredDevice, Errno> {
    let discover = || discovery::discover(MMIO_DEVICES.get().map_or(&[], Vec::as_slice));
    let id = u16::from(u8::from(id));
    let devices = DISCOVERED.get_or_try_init(discover).map_err(|_| Errno::ENOMEM)?;
    devices.iter().filter(|device| device.id() == id).nth(index).ok_or(Errno::ENOENT)
}

/// Starts a device: `new` creates the driver, which is then registered as the handler of the device's
/// interrupt line.
///
/// # Errors
///
/// `ENOENT` if the device cannot be used, `ENOMEM`. Prints a warning that names the device; for `ENOMEM`,
/// only once. Prints no warning if the device only lacks the feature that the driver is for.
fn start<D: InterruptHandler>(
    device: &DiscoveredDevice,
    new: impl FnOnce(Transport, &DriverMemory) -> Result<D, InitError>,
) -> Result<&'static D, Errno> {
    let memory = DriverMemory::default();
    let started = device.transport().and_then(|(transport, line)| {
        let driver = new(transport, &memory).map_err(|error| device.refuse(error))?;
        install(driver, line)
    });
    if started.as_ref().is_err_and(|error| *error == Errno::ENOMEM) {
        device.warn_of_shortage(&memory.shortage());
    }
    started
}

/// Registers a driver permanently as the handler of its device's interrupt line. The driver then handles
/// interrupts that the device has raised before. Without memory, drops the driver, which resets the device.
///
/// # Errors
///
/// `ENOMEM`.
fn install<D: InterruptHandler>(driver: D, line: u8) -> Result<&'static D, Errno> {
    let driver = interrupts::register(line, driver).map_err(|_| Errno::ENOMEM)?;
    // An interrupt that the device raised before the registration is lost, unless the line was masked until
    // now. There may be no further interrupt after it. A virtio-mmio device keeps its wire raised until the
    // first interrupt is acknowledged, so an I/O APIC sees no new edge. And a queue that has raised its
    // interrupt raises it again only after the driver has looked at the queue. So the driver is called here
    // once.
    if line >= TIMER {
        let _masked = Masked::new();
        driver.interrupt();
    }
    Ok(driver)
}
