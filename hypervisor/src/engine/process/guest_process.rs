//! Running process of a guest, and the system calls that it reports.
//!
//! There is one type for each state of the process. A [`StartingProcess`] executes its bootstrap program. It
//! becomes a [`GuestProcess`], whose seccomp listener reports hypercalls to the hypervisor. With a debugger,
//! it becomes a [`PausedProcess`] instead, which waits for its tracers. Dropping any of these values kills
//! the process. The control socket connects the hypervisor with the bootstrap program. The program sends the
//! listener over the socket, or the system call that has failed.

use std::fs::File;
use std::io::{self, Write};
use std::mem::offset_of;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use hermit_interface::process::{MEMORY, SharedCpu, TIMER};
use libc::seccomp_notif;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use syscalls::Sysno;
use vm_memory::{Bytes, GuestAddress};
use vmm_sys_util::sock_ctrl_msg::ScmSocket;

use super::QueueEvent;
use super::bootstrap::elf::{ENTRY_SIZE, syscall_number};
use super::bootstrap::syscalls::{self as bootstrap, BootstrapConfig, BootstrapProgram};
use super::error::{ProcessError, syscall_failed};
use super::fds::{CONTROL_FD, MIN_COPY_FD, RULESET_FD};
use super::owned_process::{ExitStatus, OwnedProcess};
use super::seccomp_notify::{self, CallResponse};
use super::spawn::{SpawnConfig, spawn};
use crate::memory::Memory;
use crate::sandbox;

/// Process that runs the guest's kernel, or is about to enter it, and the listener of its seccomp filter.
#[derive(Debug)]
pub(super) struct GuestProcess {
    process: OwnedProcess,
    listener: OwnedFd,
}

/// Event of a guest's process.
#[derive(Debug)]
pub(super) enum GuestEvent {
    /// The calling thread has received a signal.
    Interrupted,
    /// A thread of the process waits for the response to a system call.
    Call(seccomp_notif),
    /// The process has ended.
    Exited(ExitStatus),
}

impl GuestProcess {
    /// Waits for the next event.
    pub(super) fn wait(&mut self) -> rustix::io::Result<GuestEvent> {
        loop {
            let mut ready = [
                PollFd::new(&self.listener, PollFlags::IN),
                PollFd::from_borrowed_fd(self.process.as_fd(), PollFlags::IN),
            ];
            match poll(&mut ready, None) {
                Err(Errno::INTR) => return Ok(GuestEvent::Interrupted),
                result => result?,
            };
            let [listener, pidfd] = ready.map(|descriptor| descriptor.revents());
            if listener.contains(PollFlags::IN) {
                match seccomp_notify::receive(&self.listener) {
                    // A signal has interrupted this thread (EINTR), or the thread that made the call
                    // (ENOENT).
                    Err(Errno::INTR | Errno::NOENT) => return Ok(GuestEvent::Interrupted),
                    call => return call.map(GuestEvent::Call),
                }
            }
            if !pidfd.is_empty() {
                return Ok(GuestEvent::Exited(self.process.wait()));
            }
        }
    }

    /// Completes the system call `id`.
    pub(super) fn respond(&self, id: u64, response: CallResponse) -> rustix::io::Result<()> {
        match seccomp_notify::send(&self.listener, id, response) {
            // The process has exited meanwhile.
            Err(Errno::NOENT) => Ok(()),
            result => result,
        }
    }

    /// Waits for the hypercall that ends the bootstrap, and returns its ID. The response to it lets the
    /// process enter the kernel.
    pub(super) fn first_hypercall(&mut self) -> Result<u64, ProcessError> {
        loop {
            match self.wait().map_err(syscall_failed("poll"))? {
                GuestEvent::Interrupted => {}
                GuestEvent::Call(call) => return Ok(call.id),
                GuestEvent::Exited(status) => return Err(ProcessError::Exited(status.describe())),
            }
        }
    }
}

/// Process that executes its bootstrap program to set itself up.
#[derive(Debug)]
pub(super) struct StartingProcess {
    process: OwnedProcess,
    control: UnixStream,
}

impl StartingProcess {
    /// Starts a process.
    pub(super) fn start(
        config: &BootstrapConfig,
        memory: &Memory,
        events: &[QueueEvent],
    ) -> Result<Self, ProcessError> {
        let (control, theirs) = UnixStream::pair().map_err(syscall_failed("socketpair"))?;
        let ruleset = sandbox::empty_ruleset().map_err(|error| ProcessError::Syscall {
            call: "landlock_create_ruleset",
            source: io::Error::other(error),
        })?;
        let has_ruleset = ruleset.is_some();
        // `descriptors` consumes `theirs`, so this process closes the child's end of the control socket. Only
        // then does a read return when the child exits.
        let descriptors = descriptors(memory, events, theirs.into(), ruleset)?;
        // The kernel gives the listener the lowest number that is free.
        let is_free = |number: &u32| descriptors.iter().all(|(_, taken)| taken != number);
        let listener = (0..).find(is_free).unwrap_or(CONTROL_FD);
        let BootstrapProgram { file, pid_offset } = bootstrap::build(config, listener, has_ruleset);
        let program = program_file(&file).map_err(syscall_failed("memfd_create"))?;
        write_timer_events(memory, config.cpu_count).map_err(syscall_failed("write"))?;
        let has_pid_namespace = config.has_pid_namespace;
        let spawn_config = SpawnConfig {
            program: &program,
            pid_offset,
            descriptors: &descriptors,
            memory,
            has_pid_namespace,
        };
        Ok(Self { process: OwnedProcess::new(spawn(&spawn_config)?), control })
    }

    pub(super) const fn process(&self) -> &OwnedProcess {
        &self.process
    }

    /// Waits until the process has its seccomp filter, which reports hypercalls to a listener.
    pub(super) fn into_guest(mut self) -> Result<GuestProcess, ProcessError> {
        let listener = receive_listener(&self.control, &mut self.process)?;
        let listener = listener.ok_or(ProcessError::Unsupported("there is no listener for system calls"))?;
        seccomp_notify::set_sync_wake_up(&listener);
        Ok(GuestProcess { process: self.process, listener })
    }

    /// Waits until the process waits for its tracers.
    pub(super) fn into_paused(mut self) -> Result<PausedProcess, ProcessError> {
        receive_listener(&self.control, &mut self.process)?;
        let Self { process, control } = self;
        Ok(PausedProcess { _process: process, control })
    }
}

/// Process that waits for its tracers.
#[derive(Debug)]
pub(super) struct PausedProcess {
    /// Kills the process when it is dropped.
    _process: OwnedProcess,
    /// Control socket: the process waits for a byte.
    control: UnixStream,
}

impl PausedProcess {
    /// Lets the process continue, once it is traced.
    pub(super) fn resume(&self) -> Result<(), ProcessError> {
        (&self.control).write_all(&[0]).map_err(syscall_failed("write"))
    }
}

/// Duplicates the descriptors that the process inherits. Returns each with its number in the new process.
fn descriptors(
    memory: &Memory,
    events: &[QueueEvent],
    control: OwnedFd,
    ruleset: Option<OwnedFd>,
) -> Result<Vec<(OwnedFd, u32)>, ProcessError> {
    let memory = memory.file().ok_or(ProcessError::Unsupported("guest memory is not shared"))?;
    let copy = |descriptor: &dyn AsFd, number: u32| {
        let copy = fcntl_dupfd_cloexec(descriptor.as_fd(), MIN_COPY_FD).map_err(syscall_failed("fcntl"))?;
        Ok((copy, number))
    };
    let mut copies = vec![copy(memory, MEMORY)?, copy(&control, CONTROL_FD)?];
    for event in events {
        copies.push(copy(&event.event, event.fd_number)?);
    }
    if let Some(ruleset) = ruleset {
        copies.push(copy(&ruleset, RULESET_FD)?);
    }
    Ok(copies)
}

/// Writes the program to an anonymous file, and returns a descriptor of at least [`MIN_COPY_FD`].
fn program_file(file: &[u8]) -> io::Result<OwnedFd> {
    let name = "uhyve-guest";
    let descriptor = match memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::EXEC) {
        // Linux before 6.3 does not know MFD_EXEC.
        Err(Errno::INVAL) => memfd_create(name, MemfdFlags::CLOEXEC)?,
        result => result?,
    };
    let mut program = File::from(descriptor);
    program.write_all(file)?;
    // dup2 in the child must not overwrite this descriptor.
    Ok(fcntl_dupfd_cloexec(&program, MIN_COPY_FD)?)
}

/// Writes the arguments of timer_create(2) (`struct sigevent`) into the array of CPUs.
fn write_timer_events(memory: &Memory, cpu_count: u32) -> io::Result<()> {
    for cpu in 0..u64::from(cpu_count) {
        let write = |field: usize, value: u32| {
            let address = cpu * size_of::<SharedCpu>() as u64 + field as u64;
            memory.guest().write_obj(value, GuestAddress(address)).map_err(io::Error::other)
        };
        write(offset_of!(SharedCpu, signal), TIMER)?;
        write(offset_of!(SharedCpu, notify), libc::SIGEV_THREAD_ID.cast_unsigned())?;
    }
    Ok(())
}

/// Waits for the process's message on the control socket. After a successful bootstrap, the process sends one
/// byte, with the listener unless it will be traced. If a system call of the bootstrap has failed, the
/// process sends the call's list entry instead.
fn receive_listener(
    control: &UnixStream,
    process: &mut OwnedProcess,
) -> Result<Option<OwnedFd>, ProcessError> {
    let mut message = [0; ENTRY_SIZE];
    let (size, listener) = loop {
        match control.recv_with_fd(&mut message) {
            Err(error) if error.errno() == libc::EINTR => {}
            result => break result.map_err(syscall_failed("recvmsg"))?,
        }
    };
    if size == 1 {
        return Ok(listener.map(OwnedFd::from));
    }
    let status = process.wait();
    let call = syscall_number(&message).filter(|_| size == ENTRY_SIZE);
    let call = call.and_then(|number| Sysno::new(hermit_interface::to_usize(number)));
    match (call, status) {
        (Some(call), ExitStatus::Code(errno)) => {
            Err(ProcessError::Syscall { call: call.name(), source: io::Error::from_raw_os_error(errno) })
        }
        _ => Err(ProcessError::Exited(status.describe())),
    }
}
