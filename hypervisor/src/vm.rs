//! A machine: configured, loaded, running.

use std::io;
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hermit_interface::boot_info::Platform;
use hermit_interface::command_line::Encoder;
use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};
use vmm_sys_util::eventfd::{EFD_CLOEXEC, EFD_NONBLOCK, EventFd};

use crate::board::{Board, BoardError};
use crate::boot::{self, BootError, Facts};
use crate::choice::Choice;
use crate::config::Config;
use crate::control::{Controller, Leash};
use crate::devices::worker::{Worker, WorkerError};
use crate::engine::{Engine, EngineError, Exit, Vcpu};
use crate::gdb::{Debugger, Server};
use crate::image::{FileError, ImageFile};
use crate::machine::{End, Machine};
use crate::memory::{Memory, MemoryError};
use crate::network::{self, NetworkError};
use crate::sandbox::{Role, Rules, Sandbox, SandboxError, Threads};

/// How long to wait for a thread before looking again.
const PAUSE: Duration = Duration::from_micros(50);

/// How long the output of a machine that was told to end may take.
const PATIENCE: Duration = Duration::from_secs(1);

/// Why a machine cannot run.
#[derive(Debug, thiserror::Error)]
pub enum VmError {
    /// See [`FileError`].
    #[error(transparent)]
    File(#[from] FileError),
    /// See [`MemoryError`].
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// See [`EngineError`].
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// See [`BootError`].
    #[error(transparent)]
    Boot(#[from] BootError),
    /// See [`BoardError`].
    #[error(transparent)]
    Board(#[from] BoardError),
    /// See [`WorkerError`].
    #[error(transparent)]
    Worker(#[from] WorkerError),
    /// See [`SandboxError`].
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// The host has no threads, events or the like.
    #[error("the host cannot run the machine: {0}")]
    Host(#[from] io::Error),
}

/// A machine that is to be.
#[derive(Debug)]
pub struct Configured(Config);

/// A machine with an image in its memory.
#[derive(Debug)]
pub struct Loaded {
    engine: Box<dyn Engine>,
    vcpus: Vec<Box<dyn Vcpu>>,
    memory: Memory,
    machine: Arc<Machine>,
    worker: Worker,
    network: Option<Worker>,
    stop_worker: EventFd,
    sandbox: Sandbox,
    gdb: Option<Server>,
}

/// A machine whose processors run.
#[derive(Debug)]
pub struct Running {
    _engine: Box<dyn Engine>,
    memory: Memory,
    machine: Arc<Machine>,
    processors: Processors,
    workers: Vec<JoinHandle<()>>,
    stop_worker: EventFd,
}

/// Who controls the processors.
#[derive(Debug)]
enum Processors {
    Free(Controller),
    Debugged(Debugger),
}

impl Processors {
    /// Stops all of them, but does not wait longer than that.
    fn stop(self, patience: Duration) {
        match self {
            Self::Free(controller) => controller.end(patience),
            Self::Debugged(debugger) => debugger.end(patience),
        }
    }
}

/// A machine in one of its states.
#[derive(Debug)]
pub struct Vm<State>(State);

impl Vm<Configured> {
    /// A machine of this kind.
    #[must_use]
    pub const fn new(config: Config) -> Self {
        Self(Configured(config))
    }

    /// Makes the machine and puts the image into its memory.
    ///
    /// # Errors
    ///
    /// See [`VmError`].
    pub fn load(self) -> Result<Vm<Loaded>, VmError> {
        let config = self.0.0;
        let file = ImageFile::open(&config.image)?;
        let image = file.check()?;
        let mut choice = Choice::new(&config)?;
        let board = Board::new(&config, &choice.memory, &*choice.engine)?;
        let facts = Facts {
            platform: choice.platform,
            cpus: config.cpus.get(),
            devices: &board.descriptions,
            command_line: &command_line(&file, &config),
            tsc: choice.first()?.tsc()?,
            date: boot::now(),
        };
        let entry = boot::load(&mut choice.memory, &image, &facts)?;
        choice.first()?.enter(&entry)?;
        let Choice { platform, memory, engine, vcpus } = choice;
        let listen = |port| Server::listen(port, &config.image, &image, &entry, memory.clone());
        let gdb = config.gdb.map(listen).transpose()?;
        let machine = Arc::new(Machine::new(board.bus, board.text)?);
        let stop_worker = EventFd::new(EFD_NONBLOCK | EFD_CLOEXEC)?;
        let worker = Worker::new(board.slots, stop_worker.try_clone()?)?;
        let serve_network = |slot| Ok::<_, VmError>(Worker::new(vec![slot], stop_worker.try_clone()?)?);
        let network = board.network.map(serve_network).transpose()?;
        let (debugger, process) = (gdb.is_some(), platform == Platform::Process);
        let rules = Rules { debugger, process, tap: board.tap, ..Rules::default() };
        let sandbox = if config.sandbox { Sandbox::new(rules)? } else { Sandbox::off() };
        if let Some(program) = board.starting {
            program.finish().map_err(|error| BoardError::from(NetworkError::from(error)))?;
        }
        Ok(Vm(Loaded { engine, vcpus, memory, machine, worker, network, stop_worker, sandbox, gdb }))
    }
}

/// What the kernel is told of the program's arguments and environment.
fn command_line(file: &ImageFile, config: &Config) -> Vec<u8> {
    let mut line = Encoder::new();
    line.argv0(file.program());
    config.network.iter().for_each(|network| network::describe(network, &mut line));
    config.environment.iter().for_each(|variable| line.env(&variable.clone().into_bytes()));
    config.arguments.iter().for_each(|argument| line.arg(&argument.clone().into_vec()));
    line.finish()
}

impl Vm<Loaded> {
    /// Confines this process with all its threads, and lets the processors run, or has them wait for gdb.
    /// A guest that is a process ends with the thread that calls this.
    ///
    /// # Errors
    ///
    /// If the host has no threads, or will not confine them.
    pub fn start(self) -> Result<Vm<Running>, VmError> {
        let Loaded { engine, mut vcpus, memory, machine, worker, network, stop_worker, sandbox, gdb } =
            self.0;
        let count = vcpus.len();
        let (mut controller, leashes) = Controller::prepare(count)?;
        let (debug, debugger) = match gdb {
            Some(server) => {
                server.announce()?;
                let (debug, debugger) = server.prepare(&machine)?;
                (Some(debug), Some(debugger))
            }
            None => (None, None),
        };
        let mut threads = Threads::new(sandbox)?;
        vcpus.iter_mut().try_for_each(|vcpu| vcpu.confined())?;
        let workers = [Some((worker, Role::Devices)), network.map(|worker| (worker, Role::Network))];
        let workers: Vec<_> = workers.into_iter().flatten().collect();
        let worker_count = workers.len();
        for (worker, role) in workers {
            let machine = Arc::clone(&machine);
            threads.spawn(role.to_string(), role, move || serve(worker, &machine))?;
        }
        for (number, (vcpu, leash)) in vcpus.into_iter().zip(leashes).enumerate() {
            let machine = Arc::clone(&machine);
            threads.spawn(format!("vcpu {number}"), Role::Vcpu, move || run(vcpu, &machine, &leash))?;
        }
        if let Some(debug) = debug {
            threads.spawn("gdb".to_owned(), Role::Gdb, debug)?;
        }
        let mut threads = threads.start()?.into_iter();
        let workers = threads.by_ref().take(worker_count).collect();
        controller.attach(threads.take(count));
        let processors = match debugger {
            Some(debugger) => {
                debugger.hand_over(controller);
                Processors::Debugged(debugger)
            }
            None => {
                controller.run_all();
                Processors::Free(controller)
            }
        };
        Ok(Vm(Running { _engine: engine, memory, machine, processors, workers, stop_worker }))
    }
}

/// Ends the machine if its thread panics, which no guest shall be able to bring about.
struct EndOnPanic<'a>(&'a Machine);

impl Drop for EndOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.finish(End::Failed("a thread of uhyve has panicked: please report this".to_owned()));
        }
    }
}

/// What the thread of the devices does.
fn serve(worker: Worker, machine: &Machine) {
    let _end = EndOnPanic(machine);
    if let Err(error) = worker.run() {
        machine.finish(End::Failed(error.to_string()));
    }
}

/// What the thread of a processor does.
fn run(mut vcpu: Box<dyn Vcpu>, machine: &Machine, leash: &Leash) {
    let vcpu = &mut *vcpu;
    let _end = EndOnPanic(machine);
    if let Err(error) = vcpu.begin() {
        machine.finish(End::Failed(error.to_string()));
    }
    let mut goes_on = leash.may_run(vcpu);
    while goes_on && machine.end().is_none() {
        let exit = vcpu.run();
        if let Ok(exit) = &exit {
            machine.exits().count(exit);
        }
        match exit {
            Ok(Exit::PortWrite(port, bytes)) => machine.write_port(port, bytes),
            Ok(Exit::PortRead(port, bytes)) => machine.read_port(port, bytes),
            Ok(Exit::Write(address, bytes)) => machine.write(address, bytes),
            Ok(Exit::Read(address, bytes)) => machine.read(address, bytes),
            Ok(Exit::Interrupted) => goes_on = leash.interrupted(vcpu),
            Ok(Exit::Debug(event)) => goes_on = leash.stopped(vcpu, event),
            Ok(Exit::Reset) => machine.finish(End::Reset),
            Ok(Exit::Failed) => match vcpu.failed_at_breakpoint() {
                Some(event) => goes_on = leash.stopped(vcpu, event),
                None => machine.finish(End::Failed(vcpu.failure())),
            },
            Ok(Exit::Denied) => machine.finish(End::Denied(vcpu.failure())),
            Err(error) => machine.finish(End::Failed(error.to_string())),
        }
    }
}

impl Vm<Running> {
    /// What ends the machine from outside.
    #[must_use]
    pub fn machine(&self) -> Arc<Machine> {
        Arc::clone(&self.0.machine)
    }

    /// The machine's memory.
    #[must_use]
    pub fn memory(&self) -> Memory {
        self.0.memory.clone()
    }

    /// Waits for the machine's end, and until everything that the guest has said is written. A machine that was told to end
    /// waits for the latter only a second: nobody need read it. `deadline` is when no machine waits any longer.
    ///
    /// # Errors
    ///
    /// If the host cannot wait.
    pub fn wait(self, deadline: Option<Instant>) -> Result<End, VmError> {
        let Running { _engine, memory: _memory, machine, processors, workers, stop_worker } = self.0;
        let ended = wait(&machine);
        let end = machine.end().cloned().unwrap_or(End::Stopped);
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()).max(PATIENCE));
        let patience = if end == End::Stopped { PATIENCE } else { left.unwrap_or(Duration::MAX) };
        processors.stop(patience);
        // Those have stopped: the devices serve what the guest has sent so far.
        let _: io::Result<()> = stop_worker.write(1);
        wait_for_devices(&workers, patience);
        ended?;
        Ok(end)
    }
}

/// Waits for the machine's end.
fn wait(machine: &Machine) -> io::Result<()> {
    let epoll = Epoll::new()?;
    let fd = std::os::fd::AsRawFd::as_raw_fd(machine.ended());
    epoll.ctl(ControlOperation::Add, fd, EpollEvent::new(EventSet::IN, 0))?;
    while machine.end().is_none() {
        match epoll.wait(-1, &mut [EpollEvent::default()]) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Waits until everything that the guest has said is written, but not longer than that.
fn wait_for_devices(workers: &[JoinHandle<()>], patience: Duration) {
    let start = Instant::now();
    while !workers.iter().all(JoinHandle::is_finished) && start.elapsed() < patience {
        thread::sleep(PAUSE);
    }
}
