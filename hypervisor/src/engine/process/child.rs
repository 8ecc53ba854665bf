//! A guest's process, from its program to its end.

use std::fs::File;
use std::io::{self, Write};
use std::mem::offset_of;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use hermit_interface::process::{Cpu, MEMORY, TIMER};
use libc::seccomp_notif;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use syscalls::Sysno;
use vm_memory::{Bytes, GuestAddress};
use vmm_sys_util::sock_ctrl_msg::ScmSocket;

use super::lifetime::{Ended, Process};
use super::listener::{self, Answer};
use super::program::{STEP_SIZE, number};
use super::script::{self, CONTROL, Plan, RULES, Script};
use super::spawn::{Birth, spawn};
use super::{Kick, ProcessError, refused, request};
use crate::memory::Memory;
use crate::sandbox;

/// Descriptors from here on have numbers that none of the process's own will have.
const OUT_OF_THE_WAY: i32 = 160;

/// A process whose kernel runs, or is about to.
#[derive(Debug)]
pub(super) struct Child {
    pub(super) process: Process,
    listener: OwnedFd,
}

/// Why there is something to do.
#[derive(Debug)]
pub(super) enum Event {
    /// A signal came to this thread.
    Interrupted,
    /// A system call waits for an answer.
    Call(seccomp_notif),
    /// The process has ended.
    Ended(Ended),
}

impl Child {
    /// A process that is as the plan says, and waits for the answer to its last system call before the kernel runs. That
    /// call's identifier is returned, too.
    pub(super) fn start(plan: &Plan, memory: &Memory, kicks: &[Kick]) -> Result<(Self, u64), ProcessError> {
        let (Held { process, .. }, listener) = start(plan, memory, kicks)?;
        let listener = listener.ok_or(ProcessError::Lacks("there is no listener for system calls"))?;
        listener::take_turns(&listener);
        let mut child = Self { process, listener };
        let first = child.next_close()?;
        child.answer(first, Answer::Continue).map_err(refused("close"))?;
        let last = child.next_close()?;
        Ok((child, last))
    }

    /// Waits until there is something to do.
    pub(super) fn wait(&mut self) -> rustix::io::Result<Event> {
        loop {
            let mut ready = [
                PollFd::new(&self.listener, PollFlags::IN),
                PollFd::from_borrowed_fd(self.process.as_fd(), PollFlags::IN),
            ];
            match poll(&mut ready, None) {
                Err(Errno::INTR) => return Ok(Event::Interrupted),
                result => result?,
            };
            let [calls, end] = ready.map(|descriptor| descriptor.revents());
            if calls.contains(PollFlags::IN) {
                match listener::receive(&self.listener) {
                    // A signal came first, to this thread or to the one of the call.
                    Err(Errno::INTR | Errno::NOENT) => return Ok(Event::Interrupted),
                    call => return call.map(Event::Call),
                }
            }
            if !end.is_empty() {
                return Ok(Event::Ended(self.process.wait()));
            }
        }
    }

    /// Answers a system call.
    pub(super) fn answer(&self, id: u64, answer: Answer) -> rustix::io::Result<()> {
        match listener::send(&self.listener, id, answer) {
            // The process has ended meanwhile.
            Err(Errno::NOENT) => Ok(()),
            result => result,
        }
    }

    /// The next system call, by which the program closes something.
    fn next_close(&mut self) -> Result<u64, ProcessError> {
        loop {
            match self.wait().map_err(refused("poll"))? {
                Event::Interrupted => {}
                Event::Call(call) if i64::from(call.data.nr) == libc::SYS_close => return Ok(call.id),
                Event::Call(call) => return Err(ProcessError::Ended(request::describe(&call.data))),
                Event::Ended(ended) => return Err(ProcessError::Ended(ended.describe())),
            }
        }
    }
}

/// A process whose kernel does not run yet.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) process: Process,
    /// A byte lets it go on if it is to be traced.
    pub(super) control: UnixStream,
}

impl Held {
    /// A process that is as the plan says, and is to be traced.
    pub(super) fn start(plan: &Plan, memory: &Memory, kicks: &[Kick]) -> Result<Self, ProcessError> {
        Ok(start(plan, memory, kicks)?.0)
    }
}

/// A process, and the listener for its system calls if it is not to be traced.
fn start(plan: &Plan, memory: &Memory, kicks: &[Kick]) -> Result<(Held, Option<OwnedFd>), ProcessError> {
    let (control, theirs) = UnixStream::pair().map_err(refused("socketpair"))?;
    let rules = sandbox::empty_rules().map_err(|error| ProcessError::Refused {
        call: "landlock_create_ruleset",
        source: io::Error::other(error),
    })?;
    let has_rules = rules.is_some();
    let descriptors = descriptors(memory, kicks, theirs.into(), rules)?;
    // The lowest number that is free: so descriptors are given out.
    let is_free = |number: &u32| descriptors.iter().all(|(_, taken)| taken != number);
    let listener = (0..).find(is_free).unwrap_or(CONTROL);
    let Script { file, process } = script::write(plan, listener, has_rules)?;
    let program = program(&file).map_err(refused("memfd_create"))?;
    prepare(memory, plan.count).map_err(refused("write"))?;
    let birth = Birth { program: &program, process, descriptors: &descriptors, memory };
    let mut process = Process::new(spawn(&birth)?);
    // Without its other end here, the socket says when the process has ended.
    drop(descriptors);
    let listener = receive(&control, &mut process)?;
    Ok((Held { process, control }, listener))
}

/// All descriptors that the process gets, with their numbers there.
fn descriptors(
    memory: &Memory,
    kicks: &[Kick],
    control: OwnedFd,
    rules: Option<OwnedFd>,
) -> Result<Vec<(OwnedFd, u32)>, ProcessError> {
    let memory = memory.file().ok_or(ProcessError::Lacks("the machine's memory is not shared"))?;
    let copy = |descriptor: &dyn AsFd, number: u32| {
        let descriptor = fcntl_dupfd_cloexec(descriptor.as_fd(), OUT_OF_THE_WAY).map_err(refused("fcntl"))?;
        Ok((descriptor, number))
    };
    let mut copies = vec![copy(memory, MEMORY)?, copy(&control, CONTROL)?];
    for kick in kicks {
        copies.push(copy(&kick.event, kick.number)?);
    }
    if let Some(rules) = rules {
        copies.push(copy(&rules, RULES)?);
    }
    Ok(copies)
}

/// The program as a file.
fn program(file: &[u8]) -> io::Result<OwnedFd> {
    let name = "uhyve-guest";
    let descriptor = match memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::EXEC) {
        // Before Linux 6.3.
        Err(Errno::INVAL) => memfd_create(name, MemfdFlags::CLOEXEC)?,
        result => result?,
    };
    let mut program = File::from(descriptor);
    program.write_all(file)?;
    // The process closes what has a number that one of its own descriptors gets.
    Ok(fcntl_dupfd_cloexec(&program, OUT_OF_THE_WAY)?)
}

/// What timers are made from.
fn prepare(memory: &Memory, count: u32) -> io::Result<()> {
    for cpu in 0..u64::from(count) {
        let write = |field: usize, value: u32| {
            let place = cpu * size_of::<Cpu>() as u64 + field as u64;
            memory.guest().write_obj(value, GuestAddress(place)).map_err(io::Error::other)
        };
        write(offset_of!(Cpu, signal), TIMER)?;
        write(offset_of!(Cpu, notify), libc::SIGEV_THREAD_ID.cast_unsigned())?;
    }
    Ok(())
}

/// Waits until the process is almost what it is to be. It sends one byte then, and perhaps a listener.
fn receive(control: &UnixStream, process: &mut Process) -> Result<Option<OwnedFd>, ProcessError> {
    let mut message = [0; STEP_SIZE];
    let (size, listener) = loop {
        match control.recv_with_fd(&mut message) {
            Err(error) if error.errno() == libc::EINTR => {}
            result => break result.map_err(refused("recvmsg"))?,
        }
    };
    if size == 1 {
        return Ok(listener.map(OwnedFd::from));
    }
    let ended = process.wait();
    let call = number(&message).filter(|_| size == STEP_SIZE);
    let call = call.and_then(|number| Sysno::new(hermit_interface::to_usize(number)));
    match (call, ended) {
        (Some(call), Ended::Status(number)) => {
            Err(ProcessError::Refused { call: call.name(), source: io::Error::from_raw_os_error(number) })
        }
        _ => Err(ProcessError::Ended(ended.describe())),
    }
}
