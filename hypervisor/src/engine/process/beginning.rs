//! How a guest's process begins, whoever waits for what it wants.

use std::io;
use std::mem::offset_of;
use std::os::fd::AsFd;
use std::sync::{Arc, PoisonError};

use hermit_interface::boot_info::BootInfo;
use hermit_interface::process::Cpu;
use vm_memory::{Bytes, GuestAddress};

use super::clock::Clock;
use super::lifetime::Process;
use super::script::Plan;
use super::{Kick, ProcessError, Shared, mappings, refused};
use crate::boot::Entry;
use crate::memory::Memory;

/// A process that is to be.
#[derive(Debug)]
pub(super) struct Beginning {
    pub(super) shared: Arc<Shared>,
    pub(super) count: u32,
    pub(super) entry: Entry,
    is_traced: bool,
    clock: Option<Clock>,
}

impl Beginning {
    pub(super) fn new(shared: Arc<Shared>, count: u32, clock: Clock) -> Self {
        Self { shared, count, entry: Entry::default(), is_traced: false, clock: Some(clock) }
    }

    /// The same with a process that is traced.
    pub(super) fn traced(self) -> Self {
        Self { is_traced: true, ..self }
    }

    /// Has `start` start the process, and says for people which one it is.
    pub(super) fn start<T>(
        &self,
        start: impl FnOnce(&Plan, &Memory, &[Kick]) -> Result<T, ProcessError>,
        process: impl FnOnce(&T) -> &Process,
    ) -> Result<T, ProcessError> {
        let memory = &self.shared.memory;
        let plan = Plan {
            mappings: mappings::read(memory, self.entry.page_table_root),
            cpus: self.entry.direct_map,
            count: self.count,
            memory: memory.size(),
            entry: self.entry.instruction,
            argument: self.entry.boot_info,
            is_traced: self.is_traced,
        };
        let kicks = self.shared.kicks.lock().unwrap_or_else(PoisonError::into_inner);
        let started = start(&plan, memory, &kicks)?;
        let process = process(&started).as_fd().try_clone_to_owned().map_err(refused("fcntl"))?;
        // There is only one.
        let _: Result<(), _> = self.shared.process.set(process);
        log::info!("the guest is process {}, its image is at {:#x}", thread(memory, 0)?, self.entry.image);
        Ok(started)
    }

    /// Tells the kernel how fast the time-stamp counter is: as late as possible, since that takes some time.
    pub(super) fn finish_clock(&mut self) -> Result<(), ProcessError> {
        let Some(clock) = self.clock.take() else { return Ok(()) };
        let place = self.entry.boot_info.wrapping_sub(self.entry.direct_map);
        let place = place.wrapping_add(offset_of!(BootInfo, tsc_frequency) as u64);
        let frequency = clock.frequency();
        let written = self.shared.memory.guest().write_obj(frequency, GuestAddress(place));
        written.map_err(io::Error::other).map_err(refused("write"))
    }
}

/// The identifier of a processor's thread, which is the guest's to change once it runs.
pub(super) fn thread(memory: &Memory, cpu: u32) -> Result<i32, ProcessError> {
    let place = u64::from(cpu) * size_of::<Cpu>() as u64 + offset_of!(Cpu, thread) as u64;
    memory.guest().read_obj(GuestAddress(place)).map_err(io::Error::other).map_err(refused("read"))
}
