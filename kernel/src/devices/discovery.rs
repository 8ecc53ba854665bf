//! Device discovery: virtio-mmio devices and functions on the PCI bus.
//!
//! [`discover`] makes a list of all virtio devices, from the boot information, the command line and the PCI
//! bus. It does not initialise them. A driver is started when its device is first used. It finds its device
//! in the list by the virtio ID and by the position among the devices with this ID.
//!
//! PCI devices send their interrupts as messages (MSI-X). The drivers get the message lines one after the
//! other, and the messages of different drivers go to different CPUs in turn. The other CPUs start only when
//! the program starts a thread. So the messages of a device go to the first CPU until the device's own CPU
//! runs.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt::{self, Display};
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicUsize};

use hermit_hal::cpus;
use hermit_hal::devices::{self, Window};
use hermit_hal::interrupts::{self, MSI_LINES, TIMER};
use hermit_hal::memory::OutOfMemory;
use hermit_hal::sync::SpinLock;
use hermit_interface::{Errno, boot_info};
use hermit_virtio::Id;
use hermit_virtio::device::InitError;
use hermit_virtio::transport::mmio::Mmio;
use hermit_virtio::transport::pci::PciAddress;

use super::driver_memory::Shortage;
use crate::threads::{cpu, lifecycle};
use crate::{fallible, report};

/// A virtio transport of either kind.
pub(super) type Transport = Box<dyn hermit_virtio::transport::Transport + Send>;

/// A virtio device, with or without a driver.
#[derive(Debug)]
pub(super) struct DiscoveredDevice {
    /// Virtio device ID (virtio 1.2 §5).
    id: u16,
    location: Location,
    /// True if the lack of memory for the driver was already reported.
    has_reported_shortage: AtomicBool,
}

/// Location of a device's registers.
#[derive(Clone, Copy, Debug)]
enum Location {
    Mmio(boot_info::MmioDevice),
    Pci(PciAddress),
}

/// Number of drivers that have requested a message line.
static MSI_DRIVERS: AtomicUsize = AtomicUsize::new(0);

/// Returns all devices of the machine: first the devices at `mmio_devices`, then those on the PCI bus.
pub(super) fn discover(mmio_devices: &[boot_info::MmioDevice]) -> Result<Vec<DiscoveredDevice>, OutOfMemory> {
    let (mut found, mut result) = (Vec::new(), Ok(()));
    let mut add = |device| match found.try_reserve(1) {
        Ok(()) => found.push(device),
        Err(_) => result = Err(OutOfMemory),
    };
    for device in mmio_devices {
        if let Some(device) = probe_mmio(device)? {
            add(device);
        }
    }
    devices::for_each_pci_device(|address, id| {
        add(DiscoveredDevice::new(id, Location::Pci(address)));
    });
    result.map(|()| found)
}

fn probe_mmio(device: &boot_info::MmioDevice) -> Result<Option<DiscoveredDevice>, OutOfMemory> {
    let id = match device.kind {
        // The command line does not contain the device ID, so it is read from the registers.
        0 => mmio_transport(device)?.map(|mmio| hermit_virtio::transport::Transport::id(&mmio)),
        kind => u16::try_from(kind).ok(),
    };
    Ok(id.map(|id| DiscoveredDevice::new(id, Location::Mmio(*device))))
}

fn mmio_transport(device: &boot_info::MmioDevice) -> Result<Option<Mmio<Window>>, OutOfMemory> {
    let mmio = devices::mmio_transport(device.registers.start, device.registers.size)?;
    // Only uhyve's boot information has device IDs, and uhyve gives each device a line of its own.
    Ok(mmio.map(|mmio| if device.kind == 0 { mmio } else { mmio.with_exclusive_line() }))
}

/// Returns the number of the next driver that uses messages.
fn next_msi_driver() -> usize {
    MSI_DRIVERS.fetch_add(1, Relaxed)
}

/// Returns the message line for driver number `index`. If there are more drivers than lines, they share the
/// last line.
fn msi_line(index: usize) -> u8 {
    MSI_LINES.clone().nth(index).unwrap_or(MSI_LINES.end - 1)
}

/// Returns the CPU for the messages of driver number `index`. The CPUs are used in turn. The first device,
/// which is the only one for most programs, uses the first CPU.
fn msi_cpu(index: usize) -> u32 {
    (0..cpus::count()).cycle().nth(index).unwrap_or(0)
}

/// Devices whose messages go to the first CPU until their own CPU runs: the numbers of their drivers, and
/// their addresses. Messages are moved only while the lock is held, so that no messages are moved after their
/// device was removed from this list.
static WAITING_FOR_CPU: SpinLock<Vec<(usize, PciAddress)>> = SpinLock::new(Vec::new());

/// Called when a CPU has started. Moves the messages of this CPU's devices to it.
fn cpu_has_started(number: u32) {
    WAITING_FOR_CPU.lock().retain(|&(index, address)| {
        let is_waiting = msi_cpu(index) != number;
        if !is_waiting {
            devices::move_messages(address, number, msi_line(index));
        }
        is_waiting
    });
}

/// Moves the messages of a device to its own CPU when that CPU runs. Without memory, they stay with the first
/// CPU.
fn wait_for_cpu(index: usize, address: PciAddress) {
    let mut waiting = WAITING_FOR_CPU.lock();
    if waiting.try_reserve(1).is_err() {
        return;
    }
    waiting.push((index, address));
    drop(waiting);
    lifecycle::set_cpu_hook(cpu_has_started);
    let own_cpu = msi_cpu(index);
    // The CPU may have started before the device was added to the list.
    if cpu::get(own_cpu).is_some() {
        cpu_has_started(own_cpu);
    }
}

/// Leaves the messages of a device where they are. Called after the driver has failed to start: another
/// attempt gets a new line.
fn stop_waiting(address: PciAddress) {
    WAITING_FOR_CPU.lock().retain(|&(_, other)| other != address);
}

/// Returns the line of a global system interrupt. If a wired line has the same number, returns that line.
/// Otherwise, returns a message line, to which the interrupt controller sends. Returns `None` if no interrupt
/// controller has this interrupt.
fn line_of(interrupt: u32) -> Option<u8> {
    match u8::try_from(interrupt) {
        Ok(line) if line < TIMER => Some(line),
        _ => Some(msi_line(next_msi_driver())).filter(|&line| interrupts::connect(interrupt, line)),
    }
}

fn pci_transport(address: PciAddress) -> Result<(Transport, u8), Errno> {
    stop_waiting(address);
    let index = next_msi_driver();
    let own_cpu = msi_cpu(index);
    let runs = cpu::get(own_cpu).is_some();
    let cpu = if runs { own_cpu } else { 0 };
    let found = devices::pci_transport(address, cpu, msi_line(index)).map_err(|_| Errno::ENOMEM)?;
    let (pci, line) = found.ok_or(Errno::ENOENT)?;
    let pci = fallible::boxed(pci).ok_or(Errno::ENOMEM)?;
    if !runs && pci.uses_msix() {
        wait_for_cpu(index, address);
    }
    Ok((pci, line))
}

impl Display for DiscoveredDevice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match u8::try_from(self.id).map_or(Id::Reserved, Id::from) {
            Id::Net => formatter.write_str("virtio-net")?,
            Id::Block => formatter.write_str("virtio-blk")?,
            Id::Console => formatter.write_str("virtio-console")?,
            Id::Rng => formatter.write_str("virtio-rng")?,
            Id::Balloon => formatter.write_str("virtio-balloon")?,
            Id::Fs => formatter.write_str("virtio-fs")?,
            _ => write!(formatter, "virtio device of kind {}", self.id)?,
        }
        match self.location {
            Location::Mmio(device) => write!(formatter, " at {:#x}", device.registers.start),
            Location::Pci(PciAddress { bus, slot, function }) => {
                write!(formatter, " at PCI {bus:02x}:{slot:02x}.{function}")
            }
        }
    }
}

impl DiscoveredDevice {
    const fn new(id: u16, location: Location) -> Self {
        Self { id, location, has_reported_shortage: AtomicBool::new(false) }
    }

    /// Virtio device ID.
    pub(super) const fn id(&self) -> u16 {
        self.id
    }

    /// Returns the device's transport and its interrupt line.
    ///
    /// # Errors
    ///
    /// `ENOENT` if the device cannot be used, `ENOMEM`.
    pub(super) fn transport(&self) -> Result<(Transport, u8), Errno> {
        match self.location {
            Location::Mmio(device) => {
                let Some(line) = line_of(device.line) else {
                    self.warn(&format_args!("no interrupt controller has interrupt {}", device.line));
                    return Err(Errno::ENOENT);
                };
                let mmio = mmio_transport(&device).map_err(|_| Errno::ENOMEM)?.ok_or(Errno::ENOENT)?;
                Ok((fallible::boxed(mmio).ok_or(Errno::ENOMEM)?, line))
            }
            Location::Pci(address) => pci_transport(address),
        }
    }

    /// Returns the error of calls that need the driver, after it has failed to start. Prints a warning,
    /// unless memory is short or the device only lacks the feature that the driver is for.
    pub(super) fn refuse(&self, error: InitError) -> Errno {
        match error {
            InitError::OutOfMemory => return Errno::ENOMEM,
            InitError::MissingFeature => {}
            _ => self.warn(&error),
        }
        Errno::ENOENT
    }

    /// Prints a warning that the device cannot be used.
    pub(super) fn warn(&self, reason: &impl Display) {
        report::warn(format_args!("{self}: {reason}"));
    }

    /// Prints a warning that there is no memory for the driver. Does so only once, because each use of the
    /// device tries to start the driver again.
    pub(super) fn warn_of_shortage(&self, shortage: &Shortage) {
        if !self.has_reported_shortage.swap(true, Relaxed) {
            self.warn(shortage);
        }
    }
}
