//! All processors of a machine that is a process. They run by themselves; what they want comes one after the other.

use std::mem::offset_of;
use std::os::fd::AsFd;
use std::sync::{Arc, PoisonError};

use hermit_interface::boot_info::BootInfo;
use hermit_interface::process::{ADDRESSES, OUT_SIZE};
use libc::seccomp_notif;
use vm_memory::{Bytes, GuestAddress};

use super::child::{Child, Event};
use super::clock::{self, Clock};
use super::lifetime::Ended;
use super::listener::Answer;
use super::request::{Request, describe};
use super::script::Plan;
use super::{ProcessError, Shared, mappings, refused};
use crate::boot::{Entry, Tsc};
use crate::engine::{EngineError, Exit, Vcpu};

/// What runs in a guest's process, and what it waits for.
#[derive(Debug)]
pub(super) struct ProcessVcpu {
    shared: Arc<Shared>,
    count: u32,
    clock: Option<Clock>,
    entry: Entry,
    child: Option<Child>,
    /// The system call that waits.
    waiting: Option<Waiting>,
    /// What is read or written.
    bytes: [u8; OUT_SIZE],
    /// Why it cannot go on.
    failure: String,
}

/// A system call that waits, and what it gets.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    id: u64,
    answer: WaitingFor,
}

/// What the answer will be.
#[derive(Clone, Copy, Debug)]
enum WaitingFor {
    Known(Answer),
    /// So many bytes that were read.
    Bytes(usize),
}

impl ProcessVcpu {
    pub(super) fn new(shared: Arc<Shared>, count: u32, clock: Clock) -> Self {
        Self {
            shared,
            count,
            clock: Some(clock),
            entry: Entry::default(),
            child: None,
            waiting: None,
            bytes: [0; OUT_SIZE],
            failure: String::new(),
        }
    }

    /// Tells the kernel how fast the time-stamp counter is: as late as possible, since that takes some time.
    fn finish_clock(&mut self) -> Result<(), ProcessError> {
        let Some(clock) = self.clock.take() else { return Ok(()) };
        let place = self.entry.boot_info.wrapping_sub(self.entry.direct_map);
        let place = place.wrapping_add(offset_of!(BootInfo, tsc_frequency) as u64);
        let frequency = clock.frequency();
        let written = self.shared.memory.guest().write_obj(frequency, GuestAddress(place));
        written.map_err(std::io::Error::other).map_err(refused("write"))
    }

    /// Answers the system call that waits, if one does.
    fn answer(&mut self) -> Result<(), ProcessError> {
        let (Some(child), Some(waiting)) = (&self.child, self.waiting.take()) else { return Ok(()) };
        let answer = match waiting.answer {
            WaitingFor::Known(answer) => answer,
            WaitingFor::Bytes(size) => {
                let mut value = [0; 8];
                for (to, from) in value.iter_mut().zip(self.bytes.iter().take(size)) {
                    *to = *from;
                }
                Answer::Value(i64::from_le_bytes(value))
            }
        };
        child.answer(waiting.id, answer).map_err(refused("ioctl"))
    }

    fn handle(&mut self, call: &seccomp_notif) -> Exit<'_> {
        let Some(request) = Request::new(&call.data) else { return self.deny(&describe(&call.data)) };
        let answer = match request {
            Request::Read { size, .. } => WaitingFor::Bytes(size),
            Request::Write { .. } | Request::Out { .. } => WaitingFor::Known(Answer::Value(0)),
            Request::Invalid => WaitingFor::Known(Answer::Error(libc::EINVAL)),
        };
        self.waiting = Some(Waiting { id: call.id, answer });
        match request {
            Request::Read { address, size } => Exit::Read(address, self.hold(&[], size)),
            Request::Write { address, size, bytes } => Exit::Write(address, self.hold(&bytes, size)),
            Request::Out { port, size, bytes } => Exit::PortWrite(port, self.hold(&bytes, size)),
            // The answer says that it is wrong.
            Request::Invalid => Exit::Interrupted,
        }
    }

    /// So many bytes, the first of which are these.
    fn hold(&mut self, bytes: &[u8], size: usize) -> &mut [u8] {
        for (to, from) in self.bytes.iter_mut().zip(bytes) {
            *to = *from;
        }
        self.bytes.get_mut(..size).unwrap_or_default()
    }

    /// The guest tried something else: it does not live to see the answer.
    fn deny(&mut self, what: &str) -> Exit<'_> {
        self.child = None;
        self.failure = format!("the guest was killed by the sandbox: {what}");
        Exit::Denied
    }

    fn end(&mut self, ended: Ended) -> Exit<'_> {
        // So the filter ends what is no system call of this architecture.
        if ended == Ended::Signal(libc::SIGSYS) {
            return self.deny("a system call of another architecture");
        }
        self.failure = format!("the guest's process was ended: {}", ended.describe());
        Exit::Failed
    }
}

impl Vcpu for ProcessVcpu {
    /// Whether the host lets a process be made; no guest runs in it.
    fn self_test(&mut self) -> Result<(), EngineError> {
        let mappings = vec![mappings::first_page(ADDRESSES.start)];
        let memory = self.shared.memory.size();
        let plan = Plan { mappings, cpus: ADDRESSES.start, count: self.count, memory, entry: 0, argument: 0 };
        Child::start(&plan, &self.shared.memory, &[])?;
        Ok(())
    }

    fn tsc(&self) -> Result<Tsc, EngineError> {
        // The frequency comes later.
        Ok(Tsc { frequency: 0, now: clock::ticks() })
    }

    fn enter(&mut self, entry: &Entry) -> Result<(), EngineError> {
        self.entry = *entry;
        Ok(())
    }

    fn confined(&mut self) -> Result<(), EngineError> {
        let plan = Plan {
            mappings: mappings::read(&self.shared.memory, self.entry.page_table_root),
            cpus: self.entry.direct_map,
            count: self.count,
            memory: self.shared.memory.size(),
            entry: self.entry.instruction,
            argument: self.entry.boot_info,
        };
        let kicks = self.shared.kicks.lock().unwrap_or_else(PoisonError::into_inner);
        let (child, id) = Child::start(&plan, &self.shared.memory, &kicks)?;
        let process = child.process.as_fd().try_clone_to_owned().map_err(refused("fcntl"))?;
        // There is only one.
        let _: Result<(), _> = self.shared.process.set(process);
        self.child = Some(child);
        self.waiting = Some(Waiting { id, answer: WaitingFor::Known(Answer::Continue) });
        Ok(())
    }

    fn run(&mut self) -> Result<Exit<'_>, EngineError> {
        self.finish_clock()?;
        self.answer()?;
        let child = self.child.as_mut().ok_or(ProcessError::Lacks("it has ended"))?;
        Ok(match child.wait().map_err(refused("poll"))? {
            Event::Interrupted => Exit::Interrupted,
            Event::Call(call) => self.handle(&call),
            Event::Ended(ended) => self.end(ended),
        })
    }

    fn failure(&mut self) -> String {
        std::mem::take(&mut self.failure)
    }
}
