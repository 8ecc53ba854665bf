//! A VM and its life: configured, loaded, running.
//!
//! [`Vm`] has its state as a type parameter. Each step consumes the VM and returns it in the next state, so
//! no step can be skipped or repeated:
//!
//! 1. [`Vm::new`] stores the configuration.
//! 2. [`Vm::load`] opens all files, creates engine, vCPUs and devices, and loads the image. It still has the
//!    privileges of the user who has started uhyve.
//! 3. [`Vm::start`] confines the process and starts its threads. The guest runs when all of them are
//!    confined.
//! 4. [`Vm::wait`] waits for the shutdown, and writes out the guest's output.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use hermit_interface::boot_info::Platform;
use hermit_interface::command_line::Encoder;
use hermit_options::memory::MemoryExceeded;
use hermit_options::mount;
use hermit_options::open::Opener;
use hermit_options::root::{Initramfs, RootError};
use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};
use vmm_sys_util::eventfd::{EFD_CLOEXEC, EFD_NONBLOCK, EventFd};

use crate::config::Config;
use crate::devices::manager::{DeviceManager, DeviceManagerError, WorkerConfig};
use crate::devices::power_button::PowerButton;
use crate::devices::tsc::TscCalibration;
use crate::devices::worker::{Worker, WorkerError};
use crate::engine::selection::{SelectedEngine, SelectionError};
use crate::engine::{Engine, EngineError, Vcpu};
use crate::gdb::{Debugger, GdbServer};
use crate::image::boot::{self, BootError, BootParams};
use crate::image::{FileError, ImageFile};
use crate::memory::Memory;
use crate::sandbox::protections::{self, MissingProtection};
use crate::sandbox::{JailError, Role, Rules, Sandbox, SandboxError, Threads, jail};
use crate::vcpu::io_manager::IoManager;
use crate::vcpu::manager::VcpuManager;
use crate::vcpu::shutdown::{ShutdownCause, VmHandle, guarded};
use crate::vcpu::stats::ExitCounters;
use crate::vcpu::thread::VcpuContext;

/// Time limit for writing out the guest's output after a requested shutdown. There is a limit because the
/// reader of the output may have stopped reading.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(1);

/// Time limit, after the guest has ended, for all devices except output, because the server of a disk or a
/// folder may not answer. Output has no limit: it waits for its reader, like the output of any program.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a VM cannot run.
#[derive(Debug, thiserror::Error)]
pub enum VmError {
    /// See [`FileError`].
    #[error(transparent)]
    File(#[from] FileError),
    /// See [`MemoryExceeded`].
    #[error(transparent)]
    Memory(#[from] MemoryExceeded),
    /// See [`RootError`].
    #[error(transparent)]
    Root(#[from] RootError),
    /// See [`SelectionError`].
    #[error(transparent)]
    SelectedEngine(#[from] SelectionError),
    /// See [`EngineError`].
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// See [`BootError`].
    #[error(transparent)]
    Boot(#[from] BootError),
    /// See [`DeviceManagerError`].
    #[error(transparent)]
    Devices(#[from] DeviceManagerError),
    /// See [`WorkerError`].
    #[error(transparent)]
    Worker(#[from] WorkerError),
    /// See [`SandboxError`].
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// See [`MissingProtection`].
    #[error(transparent)]
    Protection(#[from] MissingProtection),
    /// The host lacks threads, file descriptors or the like.
    #[error("the host cannot run the machine: {0}")]
    Host(#[from] io::Error),
}

/// State of a VM that has a configuration only.
#[derive(Debug)]
pub struct Configured(Config);

/// State of a VM whose memory holds the image, and whose files are open. No thread runs.
#[derive(Debug)]
pub struct Loaded {
    engine: Box<dyn Engine>,
    vcpus: Vec<Box<dyn Vcpu>>,
    memory: Memory,
    handle: Arc<VmHandle>,
    io: IoManager,
    workers: Vec<DeviceThread>,
    stop_workers: EventFd,
    sandbox: Sandbox,
    gdb: Option<GdbServer>,
}

/// Device thread that is not started.
#[derive(Debug)]
struct DeviceThread {
    role: Role,
    name: String,
    worker: Worker,
}

/// State of a VM whose threads run.
#[derive(Debug)]
pub struct Running {
    engine: Box<dyn Engine>,
    memory: Memory,
    handle: Arc<VmHandle>,
    /// Keeps the devices alive until the main thread drops them.
    io: Arc<IoManager>,
    exits: Arc<ExitCounters>,
    vcpus: VcpuControl,
    workers: RunningWorkers,
    stop_workers: EventFd,
}

/// Running device threads. There is one channel for output threads, and one for the others. A channel is
/// disconnected when all threads of its kind have exited.
#[derive(Debug)]
struct RunningWorkers {
    outputs: Receiver<()>,
    others: Receiver<()>,
}

impl RunningWorkers {
    /// Waits until all threads have exited: at most `timeout` for output threads, and at most `drain` for the
    /// others. Returns true if all have exited.
    fn wait(&self, timeout: Duration, drain: Duration) -> bool {
        let start = Instant::now();
        let has_ended = |running: &Receiver<()>, timeout| {
            // The threads send nothing. They only drop their senders when they exit.
            running.recv_timeout(timeout) == Err(mpsc::RecvTimeoutError::Disconnected)
        };
        let others = has_ended(&self.others, timeout.min(drain));
        has_ended(&self.outputs, timeout.saturating_sub(start.elapsed())) && others
    }
}

/// Owner of the vCPU threads.
#[derive(Debug)]
enum VcpuControl {
    Manager(VcpuManager),
    Debugger(Debugger),
}

impl VcpuControl {
    /// Makes the vCPU threads exit, and waits for at most `timeout`.
    fn shut_down(self, timeout: Duration) {
        match self {
            Self::Manager(manager) => manager.shut_down(timeout),
            Self::Debugger(debugger) => debugger.shut_down(timeout),
        }
    }
}

/// A VM in one of its states: [`Configured`], [`Loaded`], [`Running`].
#[derive(Debug)]
pub struct Vm<State>(State);

impl Vm<Configured> {
    /// Creates a VM that is neither loaded nor running.
    #[must_use]
    pub const fn new(config: Config) -> Self {
        Self(Configured(config))
    }

    /// Creates memory, engine, vCPUs and devices, and loads the image.
    ///
    /// # Errors
    ///
    /// See [`VmError`].
    pub fn load(self) -> Result<Vm<Loaded>, VmError> {
        let config = self.0.0;
        // Started first, because the calibration takes a minimum time.
        let calibration = TscCalibration::start();
        protections::check(&config)?;
        // Checked before steps with effects that the user would have to undo.
        check_jail(&config).map_err(SandboxError::from)?;
        hermit_options::memory::check(config.memory)?;
        let opener = Opener::new(&config.mounts);
        let file = ImageFile::open(&opener, &config.image, config.memory)?;
        let image = file.check()?;
        let initramfs = read_initramfs(&opener, &config)?;
        let mut selection = SelectedEngine::new(&config, calibration)?;
        protections::check_engine(&config, selection.platform)?;
        let devices = DeviceManager::new(&config, &opener, &selection.memory, &*selection.engine)?;
        let params = BootParams {
            code: file.code(),
            platform: selection.platform,
            cpus: config.cpus.get(),
            devices: &devices.descriptions,
            command_line: &command_line(&file, &config),
            initramfs: initramfs.as_ref().map_or_else(|| file.initramfs(), |initramfs| &initramfs.archive),
            tsc: selection.boot_vcpu()?.tsc()?,
            wall_clock_ns: boot::wall_clock_ns(),
        };
        let entry = boot::load(&mut selection.memory, &image, &params)?;
        selection.boot_vcpu()?.set_entry(&entry)?;
        let SelectedEngine { platform, memory, engine, vcpus } = selection;
        let listen = |address| GdbServer::listen(address, &config.image, &image, &entry, memory.clone());
        // The port for gdb is opened here, because a confined process can neither bind nor listen.
        let gdb = config.gdb.as_ref().map(listen).transpose()?;
        let handle = Arc::new(VmHandle::new()?);
        let power_button = PowerButton::new(&*engine)?;
        let io = IoManager::new(Arc::clone(&handle), devices.bus, devices.text, power_button, memory.clone());
        let stop_workers = EventFd::new(EFD_NONBLOCK | EFD_CLOEXEC)?;
        let worker = |WorkerConfig { role, name, queues }| {
            let worker = Worker::new(queues, stop_workers.try_clone()?)?;
            Ok::<_, VmError>(DeviceThread { role, name, worker })
        };
        let workers = devices.workers.into_iter().map(worker).collect::<Result<_, _>>()?;
        let (debugger, process) = (gdb.is_some(), platform == Platform::Process);
        let allow_partial = config.allow_partial_sandbox;
        let (tap, sockets) = (devices.tap, devices.has_sockets);
        let rate_limits = has_rate_limits(&config);
        let folders = devices.folders;
        let (jail, mitigations) = (config.jail.clone(), config.mitigations);
        let rules = Rules {
            folders,
            debugger,
            process,
            allow_partial,
            tap,
            sockets,
            rate_limits,
            jail,
            mitigations,
            memory: memory.file().map(AsRawFd::as_raw_fd),
            ..Rules::default()
        };
        let sandbox = if config.sandbox { Sandbox::new(rules) } else { Sandbox::off() };
        Ok(Vm(Loaded { engine, vcpus, memory, handle, io, workers, stop_workers, sandbox, gdb }))
    }
}

/// Checks that uhyve may enter the jail, and the jail's root folder. Does nothing without a jail.
fn check_jail(config: &Config) -> Result<(), JailError> {
    let Some(jail) = &config.jail else { return Ok(()) };
    if config.sandbox { jail::check(jail) } else { Err(JailError::NoSandbox) }
}

/// Reads the initramfs of `--root`.
fn read_initramfs(opener: &Opener, config: &Config) -> Result<Option<Initramfs>, RootError> {
    let Some(path) = &config.root else { return Ok(None) };
    let initramfs = Initramfs::load(opener, path, config.memory.bytes())?;
    initramfs.notes().for_each(|note| crate::host::log::note(format_args!("{note}")));
    Ok(Some(initramfs))
}

/// Returns true if a disk, a mount or the network has a limited rate.
fn has_rate_limits(config: &Config) -> bool {
    let disks = config.disks.iter().map(|disk| disk.limits);
    let mounts = config.mounts.iter().map(|mount| mount.limits);
    let mut limits = disks.chain(mounts).chain(config.network.iter().map(|network| network.limits));
    limits.any(|limits| !limits.is_unlimited())
}

/// Encodes the command line for the boot information: the program's arguments and environment, the mounts,
/// and the network's options.
fn command_line(file: &ImageFile, config: &Config) -> Vec<u8> {
    let mut line = Encoder::new();
    line.argv0(file.program());
    config.network.iter().for_each(|network| network.encode(&mut line));
    for (number, mount) in config.mounts.iter().enumerate() {
        line.mount(&mount::tag(number), mount.guest.as_bytes(), mount.read_only);
    }
    config.workdir.iter().for_each(|path| line.working_directory(path.as_bytes()));
    config.environment.iter().for_each(|variable| line.env(&variable.clone().into_bytes()));
    config.arguments.iter().for_each(|argument| line.arg(&argument.clone().into_vec()));
    line.finish()
}

impl Vm<Loaded> {
    /// Confines this process, starts its threads, and runs the vCPUs, or keeps them paused until gdb
    /// connects. The guest's process (see [`crate::engine::process`]) is killed when the calling thread
    /// exits.
    ///
    /// # Errors
    ///
    /// The host cannot start the threads, or cannot confine them.
    pub fn start(self) -> Result<Vm<Running>, VmError> {
        let Loaded { engine, mut vcpus, memory, handle, io, workers, stop_workers, sandbox, gdb } = self.0;
        let vcpu_count = vcpus.len();
        let (mut manager, endpoints) = VcpuManager::new(vcpu_count)?;
        let (gdb_thread, debugger) = match gdb {
            Some(server) => {
                server.announce();
                let (thread, debugger) = server.prepare(&handle)?;
                (Some(thread), Some(debugger))
            }
            None => (None, None),
        };
        // From here on the process is confined. It must not have a second thread before.
        let mut threads = Threads::new(sandbox)?;
        let started: Vec<_> =
            vcpus.iter_mut().map(|vcpu| vcpu.start_processes()).collect::<Result<_, _>>()?;
        threads.processes_started()?;
        // While the guest's process sets itself up, the threads are started. Each thread installs its filter
        // at once, and waits until all others have installed theirs.
        let worker_count = workers.len();
        let (output, outputs) = mpsc::channel();
        let (other, others) = mpsc::channel();
        for DeviceThread { role, name, worker } in workers {
            let running = if role == Role::Output { output.clone() } else { other.clone() };
            let vm = Arc::clone(&handle);
            let work = move || {
                serve_devices(worker, &vm);
                drop::<mpsc::Sender<()>>(running);
            };
            threads.spawn(name, role, guarded(&handle, work))?;
        }
        drop((output, other));
        let workers = RunningWorkers { outputs, others };
        let (io, exits) = (Arc::new(io), Arc::new(ExitCounters::default()));
        for (id, (vcpu, endpoint)) in vcpus.into_iter().zip(endpoints).enumerate() {
            let context = VcpuContext {
                vm: Arc::clone(&handle),
                io: Arc::clone(&io),
                exits: Arc::clone(&exits),
                endpoint,
            };
            threads.spawn(format!("vcpu {id}"), Role::Vcpu, guarded(&handle, move || context.run(vcpu)))?;
        }
        if let Some(gdb_thread) = gdb_thread {
            threads.spawn("gdb".to_owned(), Role::Gdb, guarded(&handle, gdb_thread))?;
        }
        started.into_iter().flatten().try_for_each(|wait| wait())?;
        // Device threads were spawned first, and vCPU threads after them.
        manager.attach(threads.start()?.into_iter().skip(worker_count).take(vcpu_count));
        let vcpus = match debugger {
            Some(debugger) => {
                debugger.hand_over(manager);
                VcpuControl::Debugger(debugger)
            }
            None => {
                manager.run_all();
                VcpuControl::Manager(manager)
            }
        };
        Ok(Vm(Running { engine, memory, handle, io, exits, vcpus, workers, stop_workers }))
    }
}

/// Body of a device thread.
fn serve_devices(worker: Worker, vm: &VmHandle) {
    if let Err(error) = worker.run() {
        vm.shut_down(ShutdownCause::Failed(error.to_string()));
    }
}

impl Vm<Running> {
    /// Returns the handle with which another thread shuts the VM down.
    #[must_use]
    pub fn handle(&self) -> Arc<VmHandle> {
        Arc::clone(&self.0.handle)
    }

    /// Returns the power button, with which another thread asks the guest's program to end.
    #[must_use]
    pub fn power_button(&self) -> Arc<PowerButton> {
        self.0.io.power_button()
    }

    /// Returns the VM's memory.
    #[must_use]
    pub fn memory(&self) -> Memory {
        self.0.memory.clone()
    }

    /// Returns the counters of vCPU exits.
    #[must_use]
    pub fn exits(&self) -> Arc<ExitCounters> {
        Arc::clone(&self.0.exits)
    }

    /// Waits for the shutdown, and then until the guest's output is written. The second wait is limited. For
    /// output, it lasts at most one second after a requested shutdown, and otherwise until `deadline`. For
    /// disks, folders and network, it lasts at most ten seconds.
    ///
    /// # Errors
    ///
    /// epoll failed.
    pub fn wait(self, deadline: Option<Instant>) -> Result<ShutdownCause, VmError> {
        let Running { engine, memory, handle, io, exits: _, vcpus, workers, stop_workers } = self.0;
        let result = wait_for_shutdown(&handle);
        let cause = handle.shutdown_cause().cloned().unwrap_or(ShutdownCause::Requested);
        let left =
            deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()).max(OUTPUT_TIMEOUT));
        let timeout =
            if cause == ShutdownCause::Requested { OUTPUT_TIMEOUT } else { left.unwrap_or(Duration::MAX) };
        let ended = Instant::now();
        // The guest is killed first, because the reader of the output may block a vCPU thread for a long
        // time.
        engine.kill();
        vcpus.shut_down(timeout);
        // After the vCPUs have stopped, the workers process all chains that the guest has made available, and
        // exit.
        let _: io::Result<()> = stop_workers.write(1);
        // Blocked vCPU threads may have used up the time limit.
        let remaining = timeout.saturating_sub(ended.elapsed());
        if !workers.wait(remaining, DRAIN_TIMEOUT) {
            if cause != ShutdownCause::Requested {
                log::warn!("a device has not written out all data of the guest in time");
            }
            // A thread that still runs uses descriptors by number, and so does its filter. If the descriptors
            // were closed, other files could get the numbers, and the filter would permit access to them.
            std::mem::forget((engine, memory, io));
        }
        result?;
        Ok(cause)
    }
}

fn wait_for_shutdown(vm: &VmHandle) -> io::Result<()> {
    let epoll = Epoll::new()?;
    let fd = vm.shutdown_event().as_raw_fd();
    epoll.ctl(ControlOperation::Add, fd, EpollEvent::new(EventSet::IN, 0))?;
    while vm.shutdown_cause().is_none() {
        match epoll.wait(-1, &mut [EpollEvent::default()]) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{JailError, RunningWorkers, Vm, VmError};
    use crate::config::Config;
    use crate::config::jail::Jail;
    use crate::sandbox::SandboxError;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn blocked_device_is_not_waited_for_and_output_is() {
        const SHORT: Duration = Duration::from_millis(20);
        const LONG: Duration = Duration::from_secs(150);
        let (output, outputs) = mpsc::channel();
        let (disk, others) = mpsc::channel();
        let workers = RunningWorkers { outputs, others };
        let writer = thread::spawn(move || {
            thread::sleep(3 * SHORT);
            drop(output);
        });
        // Device threads have exited, but output takes longer than the limit of devices.
        assert!(!workers.wait(LONG, SHORT));
        writer.join().unwrap();
        drop(disk);
        assert!(workers.wait(SHORT, SHORT));
    }

    #[test]
    fn jail_without_sandbox_is_refused() {
        let jail = Some(Jail { uid: 1, gid: 1, root: None });
        let config = Config { sandbox: false, jail, ..Config::new("/no/image") };
        let result = Vm::new(config).load();
        assert!(
            matches!(result, Err(VmError::Sandbox(SandboxError::Jail(JailError::NoSandbox)))),
            "{result:?}"
        );
    }
}
