//! `--check`: what this host offers.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use hermit_interface::exit::NOT_STARTED;

use crate::config::{CpuCount, MemorySize};
use crate::engine::kvm::KvmEngine;
use crate::engine::process::ProcessEngine;
use crate::engine::{Engine, EngineError};
use crate::memory::{Memory, MemoryError};

/// Prints what can run images here. The exit code says whether something can at full speed.
pub(crate) fn main() -> ExitCode {
    let (kvm, process) = (kvm(), process());
    let (kvm_works, process_works) = (kvm.is_ok(), process.is_ok());
    // Who closes the output does not want to read it.
    let _: io::Result<()> = writeln!(io::stdout(), "kvm: {}\nprocess: {}", state(kvm), state(process));
    if kvm_works || process_works { ExitCode::SUCCESS } else { ExitCode::from(NOT_STARTED) }
}

fn state(result: Result<(), impl Display>) -> String {
    result.map_or_else(|error| error.to_string(), |()| "works, at full speed".to_owned())
}

fn kvm() -> Result<(), EngineError> {
    let memory = Memory::new(MemorySize::default()).map_err(|_| EngineError::Lacks("memory"))?;
    let engine = KvmEngine::new(memory)?;
    let mut vcpus = engine.vcpus(CpuCount::default().get())?;
    vcpus.iter_mut().try_for_each(|vcpu| vcpu.self_test())
}

fn process() -> Result<(), ProcessCheck> {
    let memory = Memory::shared(MemorySize::default())?;
    let engine = ProcessEngine::new(memory)?;
    let mut vcpus = engine.vcpus(CpuCount::default().get())?;
    Ok(vcpus.iter_mut().try_for_each(|vcpu| vcpu.self_test())?)
}

/// Why no guest can run as a process.
#[derive(Debug, thiserror::Error)]
enum ProcessCheck {
    #[error(transparent)]
    Memory(#[from] MemoryError),
    #[error(transparent)]
    Engine(#[from] EngineError),
}
