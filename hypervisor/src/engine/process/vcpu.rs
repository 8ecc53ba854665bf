//! All processors of a machine that is a process. They run by themselves; what they want comes one after the other.

use std::sync::Arc;

use hermit_interface::process::ADDRESSES;

use super::beginning::Beginning;
use super::child::{Child, Event};
use super::clock::{self, Clock};
use super::lifetime::{Ended, denied};
use super::listener::Answer;
use super::reply::Reply;
use super::request::{Request, describe};
use super::script::Plan;
use super::{ProcessError, Shared, mappings, refused};
use crate::boot::{Entry, Tsc};
use crate::engine::{EngineError, Exit, Vcpu};

/// What runs in a guest's process, and what it waits for.
#[derive(Debug)]
pub(super) struct ProcessVcpu {
    beginning: Beginning,
    child: Option<Child>,
    /// The system call that waits.
    waiting: u64,
    reply: Reply,
    /// Why it cannot go on.
    failure: String,
}

impl ProcessVcpu {
    pub(super) fn new(shared: Arc<Shared>, count: u32, clock: Clock) -> Self {
        let beginning = Beginning::new(shared, count, clock);
        Self { beginning, child: None, waiting: 0, reply: Reply::default(), failure: String::new() }
    }

    /// Answers the system call that waits, if one does.
    fn answer(&mut self) -> Result<(), ProcessError> {
        let (Some(child), Some(answer)) = (&self.child, self.reply.take()) else { return Ok(()) };
        child.answer(self.waiting, answer).map_err(refused("ioctl"))
    }

    /// The guest tried something else: it does not live to see the answer.
    fn deny(&mut self, what: &str) -> Exit<'_> {
        self.child = None;
        self.failure = denied(what);
        Exit::Denied
    }

    fn end(&mut self, ended: Ended) -> Exit<'_> {
        let (exit, failure) = ended.exit();
        self.failure = failure;
        exit
    }
}

impl Vcpu for ProcessVcpu {
    /// Whether the host lets a process be made; no guest runs in it.
    fn self_test(&mut self) -> Result<(), EngineError> {
        let mappings = vec![mappings::first_page(ADDRESSES.start)];
        let Beginning { shared, count, .. } = &self.beginning;
        let memory = &shared.memory;
        let (size, cpus) = (memory.size(), ADDRESSES.start);
        let (count, is_traced) = (*count, false);
        let plan = Plan { mappings, cpus, count, memory: size, entry: 0, argument: 0, is_traced };
        Child::start(&plan, memory, &[])?;
        Ok(())
    }

    fn tsc(&self) -> Result<Tsc, EngineError> {
        // The frequency comes later.
        Ok(Tsc { frequency: 0, now: clock::ticks() })
    }

    fn enter(&mut self, entry: &Entry) -> Result<(), EngineError> {
        self.beginning.entry = *entry;
        Ok(())
    }

    fn confined(&mut self) -> Result<(), EngineError> {
        let (child, id) = self.beginning.start(Child::start, |(child, _)| &child.process)?;
        self.child = Some(child);
        (self.waiting, self.reply) = (id, Reply::known(Answer::Continue));
        Ok(())
    }

    fn run(&mut self) -> Result<Exit<'_>, EngineError> {
        self.beginning.finish_clock()?;
        self.answer()?;
        let child = self.child.as_mut().ok_or(ProcessError::Lacks("it has ended"))?;
        Ok(match child.wait().map_err(refused("poll"))? {
            Event::Interrupted => Exit::Interrupted,
            Event::Call(call) => match Request::new(&call.data) {
                Some(request) => {
                    self.waiting = call.id;
                    self.reply.find(&request)
                }
                None => self.deny(&describe(&call.data)),
            },
            Event::Ended(ended) => self.end(ended),
        })
    }

    fn failure(&mut self) -> String {
        std::mem::take(&mut self.failure)
    }
}
