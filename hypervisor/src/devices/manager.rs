//! Device manager: creates the devices of a VM, and assigns their registers and interrupt lines.
//!
//! Devices are created in a fixed order. The number of a device in this order is its interrupt line, and
//! determines the address of its registers. The boot information passes both to the kernel. The manager also
//! assigns a thread to each virtqueue. Devices whose host side never blocks share one thread. A device whose
//! host side may block, such as a disk, has a thread of its own, so it does not delay other devices. Each
//! thread has a role, which determines the thread's system-call filter.

use std::io;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hermit_interface::boot_info::{MmioDevice, Region};
use hermit_interface::machine::{CLOCK, HOLE, POWER_BUTTON_LINE};
use hermit_options::disk::DiskError;
use hermit_options::mount::{self, MountError};
use hermit_options::open::Opener;

use crate::config::{Config, DiskConfig};
use crate::devices::block::Block;
use crate::devices::block::lock::{self, LockError};
use crate::devices::bus::{Bus, BusError};
use crate::devices::clock::HostClock;
use crate::devices::console::{ConsoleDevice, Output, TRANSMITQ, TextPort, TextPorts};
use crate::devices::entropy::{Entropy, HostRandom};
use crate::devices::fs::FileSystem;
use crate::devices::rate_limiter::RateLimiter;
use crate::devices::standard_streams::StandardStreams;
use crate::devices::virtio::{DeviceError, MmioTransport, VirtioDevice};
use crate::devices::worker::all_queues;
use crate::engine::{Engine, EngineError};
use crate::host::descriptor_limit;
use crate::memory::Memory;
use crate::network::{self, NetworkError, PreparedNetwork};
use crate::sandbox::{Folder, Role};

/// Number of file descriptors that are reserved for everything except mounts.
const RESERVED_DESCRIPTORS: usize = 512;

/// Minimum and maximum number of file descriptors of a mount.
const MIN_DESCRIPTORS: usize = 64;
const MAX_DESCRIPTORS: usize = 1 << 16;

/// Why the devices of a VM cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum DeviceManagerError {
    /// See [`DiskError`].
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// Another VM, or another program, holds a lock on the file of the disk.
    #[error("the disk {file} is in use by another machine", file = .0.display())]
    DiskInUse(PathBuf),
    /// See [`MountError`].
    #[error(transparent)]
    Mount(#[from] MountError),
    /// There are more devices than interrupt lines.
    #[error(
        "a machine has at most {POWER_BUTTON_LINE} devices: two consoles, entropy, network, disks, and mounts"
    )]
    TooMany,
    /// A standard stream cannot be duplicated.
    #[error("cannot use standard input, output and error: {0}")]
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

/// Thread that serves queues of devices.
#[derive(Debug)]
pub struct WorkerConfig {
    /// Role of the thread.
    pub role: Role,
    /// Name of the thread.
    pub name: String,
    /// Queues, each a device and an index.
    pub queues: Vec<(Arc<MmioTransport>, usize)>,
}

/// Threads that serve the queues of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Serving {
    /// The device thread serves all queues, because the host never blocks at them.
    Shared,
    /// Console: a thread with this name serves the output queue, and the device thread serves the others.
    Console(&'static str),
    /// A thread with this role and name serves all queues.
    Own(Role, String),
}

impl Serving {
    /// Returns the role and the name of the thread that serves a queue.
    fn thread(&self, queue: usize) -> (Role, &str) {
        match self {
            Self::Console(name) if queue == TRANSMITQ => (Role::Output, name),
            Self::Shared | Self::Console(_) => (Role::Devices, Role::Devices.name()),
            Self::Own(role, name) => (*role, name),
        }
    }
}

/// Devices of a VM.
#[derive(Debug)]
pub struct DeviceManager {
    /// Device registers by guest physical address.
    pub bus: Bus,
    /// Threads that serve the devices. A device that may block has a thread of its own: each disk, each
    /// mount, each output stream, and the network.
    pub workers: Vec<WorkerConfig>,
    /// File descriptor of the network device's tap, if it has one.
    pub tap: Option<RawFd>,
    /// True if the network device opens sockets while the guest runs.
    pub has_sockets: bool,
    /// Folders of the host that the guest mounts.
    pub folders: Vec<Folder>,
    /// Descriptions of the devices for the boot information.
    pub descriptions: Vec<MmioDevice>,
    /// Outputs of the text ports.
    pub text: TextPorts,
}

impl DeviceManager {
    /// Opens the files and sockets of the devices, and connects the devices to the VM.
    ///
    /// # Errors
    ///
    /// See [`DeviceManagerError`].
    pub fn new(
        config: &Config,
        opener: &Opener,
        memory: &Memory,
        engine: &dyn Engine,
    ) -> Result<Self, DeviceManagerError> {
        let StandardStreams { input, output, error } =
            StandardStreams::open(config.console).map_err(DeviceManagerError::Standard)?;
        let console = ConsoleDevice::new(output.clone(), Some(input));
        let mut devices: Vec<(Serving, Box<dyn VirtioDevice>)> = vec![
            (Serving::Console("stdout"), Box::new(console)),
            (Serving::Shared, Box::new(Entropy::<HostRandom>::default())),
        ];
        for (number, disk) in config.disks.iter().enumerate() {
            let serving = Serving::Own(Role::Disk, format!("disk {number}"));
            devices.push((serving, Box::new(open(opener, disk)?)));
        }
        // Optional devices come last, so that they do not change the interrupt lines of the others.
        let connection = config.network.as_ref();
        let connection =
            connection.map(|it| network::create_device(it, &config.passed_sockets)).transpose()?;
        let (tap, has_sockets) = match connection {
            Some(PreparedNetwork { device, tap, has_sockets }) => {
                let serving = Serving::Own(Role::Network, Role::Network.to_string());
                devices.push((serving, Box::new(device)));
                (tap, has_sockets)
            }
            None => (None, false),
        };
        if let Some(error) = &error {
            let console = ConsoleDevice::new(error.clone(), None);
            devices.push((Serving::Console("stderr"), Box::new(console)));
        }
        let mut folders = Vec::new();
        let max_descriptors = mount_descriptors(config.mounts.len());
        for (number, mount) in config.mounts.iter().enumerate() {
            let mut device = FileSystem::new(opener, mount::tag(number), mount, max_descriptors)?;
            let failed =
                |error: rustix::io::Errno| MountError { folder: mount.host.clone(), source: error.into() };
            device.set_limiter(RateLimiter::new(mount.limits).map_err(failed)?);
            folders.push(Folder { descriptor: device.folder(), read_only: mount.read_only });
            let role = if mount.read_only { Role::ReadOnlyFiles } else { Role::Files };
            devices.push((Serving::Own(role, format!("files {number}")), Box::new(device)));
        }
        let mut bus = Bus::new();
        bus.insert(CLOCK, Arc::new(HostClock::new(config.test_clock_step)))?;
        let (mut transports, mut descriptions) = (Vec::new(), Vec::new());
        for (line, (serving, device)) in (0..).zip(devices) {
            let description = describe(line, &*device)?;
            let transport = MmioTransport::new(device, memory.guest().clone(), engine.irq_line(line)?)?;
            let transport = connect(transport, description.registers, &mut bus, engine)?;
            transports.push((serving, transport));
            descriptions.push(description);
        }
        let text = text_ports(&transports, output, error);
        Ok(Self { bus, workers: workers(&transports), tap, has_sockets, folders, descriptions, text })
    }
}

/// Raises the descriptor limit of this process as far as possible, and returns the number of descriptors that
/// each of `mounts` may keep open. A part of the limit stays reserved for everything else, which needs at
/// most a few hundred descriptors. So the guest cannot exhaust uhyve's descriptors.
fn mount_descriptors(mounts: usize) -> usize {
    if mounts == 0 {
        return 0;
    }
    let current =
        descriptor_limit::raise().and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
    (current.saturating_sub(RESERVED_DESCRIPTORS) / mounts).clamp(MIN_DESCRIPTORS, MAX_DESCRIPTORS)
}

/// Returns the text ports of the consoles: one for the first console, and one for the console of standard
/// error, if there is one.
fn text_ports(
    transports: &[(Serving, Arc<MmioTransport>)],
    output: Output,
    error: Option<Output>,
) -> TextPorts {
    let consoles = transports.iter().filter(|(serving, _)| matches!(serving, Serving::Console(_)));
    let consoles: Vec<_> = consoles.map(|(_, transport)| Arc::clone(transport)).collect();
    TextPorts {
        error: TextPort::new(consoles.clone(), error.unwrap_or_else(|| output.clone())),
        output: TextPort::new(consoles.into_iter().take(1).collect(), output),
    }
}

/// Groups the queues of all devices by the thread that serves them.
fn workers(transports: &[(Serving, Arc<MmioTransport>)]) -> Vec<WorkerConfig> {
    let mut workers: Vec<WorkerConfig> = Vec::new();
    for (serving, transport) in transports {
        for queue in all_queues(transport) {
            let (role, name) = serving.thread(queue.1);
            match workers.iter_mut().find(|worker| worker.name == name) {
                Some(worker) => worker.queues.push(queue),
                None => workers.push(WorkerConfig { role, name: name.to_owned(), queues: vec![queue] }),
            }
        }
    }
    workers
}

/// Returns the description of the device with number `line`: its registers and its interrupt line.
fn describe(line: u32, device: &dyn VirtioDevice) -> Result<MmioDevice, DeviceManagerError> {
    let registers =
        Region { start: HOLE.start + u64::from(line) * MmioTransport::SIZE, size: MmioTransport::SIZE };
    let fits = line < POWER_BUTTON_LINE;
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

/// Opens and locks the file of a disk.
fn open(opener: &Opener, disk: &DiskConfig) -> Result<Block, DeviceManagerError> {
    let failed = |source| DiskError::Open { file: disk.file.clone(), source };
    let file = disk.open(opener)?;
    check_lock(lock::lock(&file, disk.read_only), &disk.file)?;
    let limiter = RateLimiter::new(disk.limits).map_err(|error| failed(error.into()))?;
    Ok(Block::new(file, disk.read_only).map_err(failed)?.with_limiter(limiter))
}

/// Converts the result of locking a disk. A disk that cannot be locked is accepted, because some file systems
/// have no locks; a disk that is locked already is an error.
fn check_lock(result: Result<(), LockError>, file: &Path) -> Result<(), DeviceManagerError> {
    match result {
        Ok(()) => Ok(()),
        Err(LockError::InUse) => Err(DeviceManagerError::DiskInUse(file.to_owned())),
        Err(LockError::Host(error)) => {
            let file = file.display();
            log::warn!(
                "the disk {file} cannot be locked, other machines may use it at the same time: {error}"
            );
            Ok(())
        }
    }
}
