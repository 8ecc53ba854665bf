//! Device manager: creates the devices of a VM, and assigns their registers and interrupt lines.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::fd::{AsFd, RawFd};
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::sync::Arc;

use hermit_interface::boot_info::{MmioDevice, Region};
use hermit_interface::machine::{HOLE, LINES};
use hermit_options::disk::{self, DiskError};

use crate::config::{Config, DiskConfig};
use crate::devices::block::Block;
use crate::devices::bus::{Bus, BusError};
use crate::devices::console::{ConsoleDevice, ConsoleInput, Output, TextPort};
use crate::devices::entropy::{Entropy, HostRandom};
use crate::devices::net::backend::passt::PasstStartup;
use crate::devices::virtio::{DeviceError, MmioTransport, VirtioDevice};
use crate::engine::{Engine, EngineError};
use crate::memory::Memory;
use crate::network::{self, NetworkError, PreparedNetwork};

/// Why the devices of a VM cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum DeviceManagerError {
    /// See [`DiskError`].
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// Another VM, or another program, holds a lock on the file of the disk.
    #[error("the disk {file} is in use by another machine", file = .0.display())]
    DiskInUse(PathBuf),
    /// There are more devices than interrupt lines.
    #[error("a machine has at most {LINES} devices: console, entropy, network, and disks")]
    TooMany,
    /// Standard input or output cannot be duplicated.
    #[error("cannot use standard input and output: {0}")]
    Standard(io::Error),
    /// See [`NetworkError`].
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// See [`DeviceError`].
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// See [`BusError`].
    #[error(transparent)]
    Bus(#[from] BusError),
    /// See [`EngineError`].
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// Devices of a VM.
#[derive(Debug)]
pub struct DeviceManager {
    /// Device registers by guest physical address.
    pub bus: Bus,
    /// Devices that the device worker serves.
    pub transports: Vec<Arc<MmioTransport>>,
    /// Network device. A worker of its own serves it, so that frames do not wait for disks and terminals.
    pub network: Option<Arc<MmioTransport>>,
    /// File descriptor of the network device's tap, if it has one.
    pub tap: Option<RawFd>,
    /// Program behind the network device that is still starting, if it has one.
    pub starting: Option<PasstStartup>,
    /// Devices for the boot information.
    pub descriptions: Vec<MmioDevice>,
    /// Output of the text port.
    pub text: TextPort,
}

impl DeviceManager {
    /// Opens the files and sockets of the devices, and connects the devices to the VM.
    ///
    /// # Errors
    ///
    /// See [`DeviceManagerError`].
    pub fn new(config: &Config, memory: &Memory, engine: &dyn Engine) -> Result<Self, DeviceManagerError> {
        let standard = |descriptor: io::Result<std::os::fd::OwnedFd>| {
            descriptor.map(File::from).map_err(DeviceManagerError::Standard)
        };
        let input = standard(io::stdin().as_fd().try_clone_to_owned())?;
        let output = Output::new(Box::new(standard(io::stdout().as_fd().try_clone_to_owned())?));
        let console = ConsoleDevice::new(output.clone(), Some(ConsoleInput::quoted(input)));
        let mut devices: Vec<Box<dyn VirtioDevice>> =
            vec![Box::new(console), Box::new(Entropy::<HostRandom>::default())];
        for disk in &config.disks {
            devices.push(Box::new(open(disk)?));
        }
        // The network device comes last, so that the lines of the disks do not depend on it.
        let connection = config.network.as_ref().map(network::create_device).transpose()?;
        let (tap, starting) = match connection {
            Some(PreparedNetwork { device, tap, starting }) => {
                devices.push(Box::new(device));
                (tap, starting)
            }
            None => (None, None),
        };
        let mut bus = Bus::new();
        let (mut transports, mut descriptions) = (Vec::new(), Vec::new());
        for (line, device) in (0..).zip(devices) {
            let description = describe(line, &*device)?;
            let transport = MmioTransport::new(device, memory.guest().clone(), engine.irq_line(line)?)?;
            let transport = connect(transport, description.registers, &mut bus, engine)?;
            transports.push(transport);
            descriptions.push(description);
        }
        // The console is the first device.
        let text = transports.first().map(|console| TextPort::new(Arc::clone(console), output));
        let text = text.ok_or(DeviceManagerError::TooMany)?;
        let network = config.network.is_some().then(|| transports.pop()).flatten();
        Ok(Self { bus, transports, network, tap, starting, descriptions, text })
    }
}

/// Registers and interrupt line of the device with number `line`.
fn describe(line: u32, device: &dyn VirtioDevice) -> Result<MmioDevice, DeviceManagerError> {
    let registers =
        Region { start: HOLE.start + u64::from(line) * MmioTransport::SIZE, size: MmioTransport::SIZE };
    let fits = line < LINES;
    fits.then(|| MmioDevice { registers, line, kind: device.device_type() })
        .ok_or(DeviceManagerError::TooMany)
}

/// Puts the device's registers on the bus, and registers its queue notifications.
fn connect(
    transport: MmioTransport,
    registers: Region,
    bus: &mut Bus,
    engine: &dyn Engine,
) -> Result<Arc<MmioTransport>, DeviceManagerError> {
    for (queue, event) in (0..).zip(transport.kicks()) {
        engine.register_ioevent(registers.start + MmioTransport::QUEUE_NOTIFY, queue, event)?;
    }
    let transport = Arc::new(transport);
    bus.insert(registers, Arc::<MmioTransport>::clone(&transport))?;
    Ok(transport)
}

/// Opens and locks the file of a disk: shared if it is read-only, otherwise exclusively.
fn open(disk: &DiskConfig) -> Result<Block, DeviceManagerError> {
    let failed = |source| DiskError::Open { file: disk.file.clone(), source };
    let mut file = OpenOptions::new().read(true).write(!disk.read_only).open(&disk.file).map_err(failed)?;
    let kind = file.metadata().map_err(failed)?.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        let reason = io::Error::new(io::ErrorKind::InvalidInput, "neither a file nor a block device");
        return Err(failed(reason).into());
    }
    let locked = if disk.read_only { file.try_lock_shared() } else { file.try_lock() };
    match locked {
        Err(TryLockError::WouldBlock) => return Err(DeviceManagerError::DiskInUse(disk.file.clone())),
        // A file system may lack locks.
        Err(TryLockError::Error(_)) | Ok(()) => {}
    }
    disk::check_size(&mut file, &disk.file)?;
    Ok(Block::new(file, disk.read_only).map_err(failed)?)
}
