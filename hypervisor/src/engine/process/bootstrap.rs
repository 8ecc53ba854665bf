//! Start of a guest's process, as both kinds of vCPUs ([`super::vcpu`], [`super::traced`]) need it.

pub(super) mod elf;
pub(super) mod syscalls;

use std::io;
use std::mem::offset_of;
use std::os::fd::AsFd;
use std::sync::{Arc, PoisonError};

use hermit_interface::boot_info::BootInfo;
use hermit_interface::process::SharedCpu;
use vm_memory::{Bytes, GuestAddress};

use self::syscalls::BootstrapConfig;
use super::error::{ProcessError, syscall_failed};
use super::guest_process::StartingProcess;
use super::{Shared, memory_map};
use crate::config::Mitigations;
use crate::devices::tsc::TscCalibration;
use crate::image::boot::KernelEntry;
use crate::memory::Memory;
use crate::sandbox::speculation::{self, Target};

/// State of a VM whose process is not started yet.
#[derive(Debug)]
pub(super) struct Bootstrap {
    pub(super) shared: Arc<Shared>,
    pub(super) entry: KernelEntry,
    cpu_count: u32,
    is_traced: bool,
    has_pid_namespace: bool,
    mitigations: Mitigations,
    calibration: Option<TscCalibration>,
}

impl Bootstrap {
    pub(super) fn new(shared: Arc<Shared>, cpu_count: u32, calibration: TscCalibration) -> Self {
        Self {
            shared,
            entry: KernelEntry::default(),
            cpu_count,
            is_traced: false,
            has_pid_namespace: false,
            mitigations: Mitigations::default(),
            calibration: Some(calibration),
        }
    }

    /// Makes the process wait for tracers before it enters the kernel ([`super::traced`]).
    pub(super) fn traced(self) -> Self {
        Self { is_traced: true, ..self }
    }

    /// Gives the process a PID namespace of its own.
    pub(super) fn with_pid_namespace(self) -> Self {
        Self { has_pid_namespace: true, ..self }
    }

    /// Disables these kinds of speculative execution in the process.
    pub(super) fn with_mitigations(self, mitigations: Mitigations) -> Self {
        Self { mitigations, ..self }
    }

    /// Starts the process, and logs its ID.
    pub(super) fn start(&self) -> Result<StartingProcess, ProcessError> {
        let memory = &self.shared.memory;
        let config = BootstrapConfig {
            mappings: memory_map::read(memory, self.entry.page_table_root),
            cpu_array: self.entry.direct_map,
            cpu_count: self.cpu_count,
            memory_size: memory.size(),
            windows: [memory_map::direct_map(memory, self.entry.direct_map), self.entry.free_addresses],
            entry: self.entry.rip,
            argument: self.entry.boot_info,
            is_traced: self.is_traced,
            has_pid_namespace: self.has_pid_namespace,
            disabled_speculation: speculation::to_disable(self.mitigations, Target::Guest).collect(),
        };
        let events = self.shared.queue_events.lock().unwrap_or_else(PoisonError::into_inner);
        let started = StartingProcess::start(&config, memory, &events)?;
        let pidfd = started.process().as_fd().try_clone_to_owned().map_err(syscall_failed("fcntl"))?;
        // Cannot fail: a VM starts only one process, so this sets the pidfd for the first time.
        let _: Result<(), _> = self.shared.pidfd.set(pidfd);
        log::info!("the guest is process {}, its image is at {:#x}", thread_id(memory, 0)?, self.entry.image);
        Ok(started)
    }

    /// Writes the frequency of the time-stamp counter into the boot information, unless it is already there.
    /// Call it as late as possible: it waits for the calibration, which takes a minimum time.
    pub(super) fn finish_calibration(&mut self) -> Result<(), ProcessError> {
        let Some(calibration) = self.calibration.take() else { return Ok(()) };
        let boot_info = self.entry.boot_info.wrapping_sub(self.entry.direct_map);
        let field = boot_info.wrapping_add(offset_of!(BootInfo, counter_frequency) as u64);
        let frequency = calibration.frequency_hz();
        let written = self.shared.memory.guest().write_obj(frequency, GuestAddress(field));
        written.map_err(io::Error::other).map_err(syscall_failed("write"))
    }
}

/// Reads the thread ID of a CPU from the [`SharedCpu`] array. It can be trusted only before the guest runs,
/// because the guest can overwrite it.
pub(super) fn thread_id(memory: &Memory, cpu: u32) -> Result<i32, ProcessError> {
    let field = u64::from(cpu) * size_of::<SharedCpu>() as u64 + offset_of!(SharedCpu, thread) as u64;
    memory.guest().read_obj(GuestAddress(field)).map_err(io::Error::other).map_err(syscall_failed("read"))
}
