//! Which devices a machine has, where, and on which line.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::fd::{AsFd, RawFd};
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::sync::Arc;

use hermit_interface::boot_info::{Device, Region};
use hermit_interface::machine::{HOLE, LINES};

use crate::config::{Config, DiskConfig};
use crate::devices::block::Block;
use crate::devices::bus::{Bus, BusError};
use crate::devices::console::{Console, Input, Output, TextPort};
use crate::devices::entropy::{Entropy, HostRandom};
use crate::devices::net::backend::passt::PasstStartup;
use crate::devices::virtio::{DeviceError, MmioTransport, VirtioDevice};
use crate::engine::{Engine, EngineError};
use crate::memory::Memory;
use crate::network::{self, NetworkDevice, NetworkError};

/// Why a machine cannot have its devices.
#[derive(Debug, thiserror::Error)]
pub enum BoardError {
    /// A disk's file cannot be opened.
    #[error("cannot open the disk {file}: {source}", file = .file.display())]
    Disk {
        /// Its name.
        file: PathBuf,
        /// What the host says.
        source: io::Error,
    },
    /// Another machine, or somebody else who locks files, has the disk.
    #[error("the disk {file} is in use by another machine", file = .0.display())]
    DiskInUse(PathBuf),
    /// There are more devices than lines.
    #[error("a machine has at most {LINES} devices: console, random numbers, network, and disks")]
    TooMany,
    /// Standard input or output cannot be used.
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

/// The devices of a machine.
#[derive(Debug)]
pub struct Board {
    /// By which addresses processors reach them.
    pub bus: Bus,
    /// What the worker serves.
    pub slots: Vec<Arc<MmioTransport>>,
    /// The network, which a worker of its own serves: frames shall not wait for disks and terminals.
    pub network: Option<Arc<MmioTransport>>,
    /// The tap behind it, if it is one.
    pub tap: Option<RawFd>,
    /// A program on which it depends, if it does.
    pub starting: Option<PasstStartup>,
    /// What the kernel is told.
    pub descriptions: Vec<Device>,
    /// The way out for text that does not come through the console device.
    pub text: TextPort,
}

impl Board {
    /// Opens what the devices need on the host, and connects them with the machine.
    ///
    /// # Errors
    ///
    /// See [`BoardError`].
    pub fn new(config: &Config, memory: &Memory, engine: &dyn Engine) -> Result<Self, BoardError> {
        let standard = |descriptor: io::Result<std::os::fd::OwnedFd>| {
            descriptor.map(File::from).map_err(BoardError::Standard)
        };
        let input = standard(io::stdin().as_fd().try_clone_to_owned())?;
        let output = Output::new(Box::new(standard(io::stdout().as_fd().try_clone_to_owned())?));
        let console = Console::new(output.clone(), Some(Input::quoted(input)));
        let mut devices: Vec<Box<dyn VirtioDevice>> =
            vec![Box::new(console), Box::new(Entropy::<HostRandom>::default())];
        for disk in &config.disks {
            devices.push(Box::new(open(disk)?));
        }
        // Behind the disks, so that those have their lines whether there is a network or not.
        let connection = config.network.as_ref().map(network::create_device).transpose()?;
        let (tap, starting) = match connection {
            Some(NetworkDevice { device, tap, starting }) => {
                devices.push(Box::new(device));
                (tap, starting)
            }
            None => (None, None),
        };
        let mut bus = Bus::new();
        let (mut slots, mut descriptions) = (Vec::new(), Vec::new());
        for (line, device) in (0..).zip(devices) {
            let description = describe(line, &*device)?;
            let slot = MmioTransport::new(device, memory.guest().clone(), engine.interrupt(line)?)?;
            let slot = connect(slot, description.registers, &mut bus, engine)?;
            slots.push(slot);
            descriptions.push(description);
        }
        // The console is the first.
        let text = slots.first().map(|console| TextPort::new(Arc::clone(console), output));
        let text = text.ok_or(BoardError::TooMany)?;
        let network = config.network.is_some().then(|| slots.pop()).flatten();
        Ok(Self { bus, slots, network, tap, starting, descriptions, text })
    }
}

/// Where the device of this line is.
fn describe(line: u32, device: &dyn VirtioDevice) -> Result<Device, BoardError> {
    let registers =
        Region { start: HOLE.start + u64::from(line) * MmioTransport::SIZE, size: MmioTransport::SIZE };
    let fits = line < LINES;
    fits.then(|| Device { registers, line, kind: device.device_type() }).ok_or(BoardError::TooMany)
}

fn connect(
    slot: MmioTransport,
    registers: Region,
    bus: &mut Bus,
    engine: &dyn Engine,
) -> Result<Arc<MmioTransport>, BoardError> {
    for (queue, kick) in (0..).zip(slot.kicks()) {
        engine.notify(registers.start + MmioTransport::QUEUE_NOTIFY, queue, kick)?;
    }
    let slot = Arc::new(slot);
    bus.insert(registers, Arc::<MmioTransport>::clone(&slot))?;
    Ok(slot)
}

/// Opens a disk that nobody else writes.
fn open(disk: &DiskConfig) -> Result<Block, BoardError> {
    let failed = |source| BoardError::Disk { file: disk.file.clone(), source };
    let file = OpenOptions::new().read(true).write(!disk.read_only).open(&disk.file).map_err(failed)?;
    let kind = file.metadata().map_err(failed)?.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, "neither a file nor a block device")));
    }
    let locked = if disk.read_only { file.try_lock_shared() } else { file.try_lock() };
    match locked {
        Err(TryLockError::WouldBlock) => return Err(BoardError::DiskInUse(disk.file.clone())),
        // A file system without locks.
        Err(TryLockError::Error(_)) | Ok(()) => {}
    }
    Block::new(file, disk.read_only).map_err(failed)
}
