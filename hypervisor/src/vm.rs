//! A machine: configured, loaded, running.

use std::io;
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hermit_interface::command_line::Encoder;
use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};
use vmm_sys_util::signal::{Killable, SIGRTMIN, register_signal_handler};

use crate::boot::{self, BootError, Facts};
use crate::config::{Config, EngineKind};
use crate::engine::kvm::{KvmEngine, KvmVcpu};
use crate::engine::{Engine, EngineError, Exit, Vcpu};
use crate::image::{FileError, ImageFile};
use crate::machine::{End, Machine};
use crate::memory::{Memory, MemoryError};

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
    engine: KvmEngine,
    vcpus: Vec<KvmVcpu>,
    machine: Arc<Machine>,
}

/// A machine whose processors run.
#[derive(Debug)]
pub struct Running {
    _engine: KvmEngine,
    machine: Arc<Machine>,
    stopping: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
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
        if config.engine == EngineKind::Process {
            return Err(EngineError::NoProcess.into());
        }
        let file = ImageFile::open(&config.image)?;
        let image = file.check()?;
        let mut memory = Memory::new(config.memory)?;
        let engine = KvmEngine::new(memory.clone())?;
        let machine = Arc::new(Machine::new()?);
        let mut vcpus = engine.vcpus(config.cpus.get())?;
        let command_line = command_line(&file, &config);
        if let Some(first) = vcpus.first_mut() {
            if config.engine == EngineKind::Auto {
                first.self_test()?;
            }
            let facts = Facts {
                cpus: config.cpus.get(),
                devices: &[],
                command_line: &command_line,
                tsc: first.tsc()?,
            };
            first.enter(&boot::load(&mut memory, &image, &facts)?)?;
        }
        Ok(Vm(Loaded { engine, vcpus, machine }))
    }
}

/// What the kernel is told of the program's arguments and environment.
fn command_line(file: &ImageFile, config: &Config) -> Vec<u8> {
    let mut line = Encoder::new();
    line.argv0(file.program());
    config.environment.iter().for_each(|variable| line.env(&variable.clone().into_bytes()));
    config.arguments.iter().for_each(|argument| line.arg(&argument.clone().into_vec()));
    line.finish()
}

impl Vm<Loaded> {
    /// Lets the processors run.
    ///
    /// # Errors
    ///
    /// If the host has no threads.
    pub fn start(self) -> Result<Vm<Running>, VmError> {
        let Loaded { engine, vcpus, machine } = self.0;
        // The signal itself does nothing; its arrival interrupts a processor.
        register_signal_handler(SIGRTMIN(), ignore).map_err(io::Error::from)?;
        let stopping = Arc::new(AtomicBool::new(false));
        let mut running =
            Running { _engine: engine, machine, stopping, threads: Vec::with_capacity(vcpus.len()) };
        for (number, vcpu) in vcpus.into_iter().enumerate() {
            let (machine, stopping) = (Arc::clone(&running.machine), Arc::clone(&running.stopping));
            let thread = thread::Builder::new()
                .name(format!("vcpu {number}"))
                .spawn(move || run(vcpu, &machine, &stopping));
            match thread {
                Ok(thread) => running.threads.push(thread),
                Err(error) => {
                    running.stop();
                    return Err(error.into());
                }
            }
        }
        Ok(Vm(running))
    }
}

extern "C" fn ignore(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {}

/// What the thread of a processor does.
fn run(mut vcpu: impl Vcpu, machine: &Machine, stopping: &AtomicBool) {
    while !stopping.load(Ordering::Relaxed) {
        let exit = vcpu.run();
        if let Ok(exit) = &exit {
            machine.exits().count(exit);
        }
        match exit {
            Ok(Exit::PortWrite(port, bytes)) => machine.write_port(port, bytes),
            Ok(Exit::PortRead(port, bytes)) => machine.read_port(port, bytes),
            Ok(Exit::Write(address, bytes)) => machine.write(address, bytes),
            Ok(Exit::Read(address, bytes)) => machine.read(address, bytes),
            Ok(Exit::Interrupted) => {}
            Ok(Exit::Reset) => machine.finish(End::Reset),
            Ok(Exit::Failed) => machine.finish(End::Failed(vcpu.failure())),
            Err(error) => machine.finish(End::Failed(error.to_string())),
        }
        if machine.end().is_some() {
            return;
        }
    }
}

impl Vm<Running> {
    /// What ends the machine from outside.
    #[must_use]
    pub fn machine(&self) -> Arc<Machine> {
        Arc::clone(&self.0.machine)
    }

    /// Waits for the machine's end.
    ///
    /// # Errors
    ///
    /// If the host cannot wait.
    pub fn wait(self) -> Result<End, VmError> {
        let mut running = self.0;
        let ended = running.wait();
        running.stop();
        ended?;
        Ok(running.machine.end().cloned().unwrap_or(End::Stopped))
    }
}

impl Running {
    fn wait(&self) -> io::Result<()> {
        let epoll = Epoll::new()?;
        let fd = std::os::fd::AsRawFd::as_raw_fd(self.machine.ended());
        epoll.ctl(ControlOperation::Add, fd, EpollEvent::new(EventSet::IN, 0))?;
        while self.machine.end().is_none() {
            match epoll.wait(-1, &mut [EpollEvent::default()]) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Stops all processors.
    fn stop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A signal that arrives just before the processor runs is lost, so once is not enough.
            while !thread.is_finished() {
                let _: vmm_sys_util::errno::Result<()> = thread.kill(SIGRTMIN());
                thread::sleep(Duration::from_micros(50));
            }
            // A thread that panicked has ended all the same.
            let _: thread::Result<()> = thread.join();
        }
    }
}
