//! `--check`: what this host offers.

use std::io::{self, Write};
use std::process::ExitCode;

use hermit_interface::exit::NOT_STARTED;

use crate::config::{CpuCount, MemorySize};
use crate::engine::kvm::KvmEngine;
use crate::engine::{Engine, EngineError};
use crate::memory::Memory;

/// Prints what can run images here. The exit code says whether something can at full speed.
pub(crate) fn main() -> ExitCode {
    let kvm = kvm();
    let state = kvm.as_ref().map_or_else(ToString::to_string, |()| "works, at full speed".to_owned());
    // Who closes the output does not want to read it.
    let _: io::Result<()> = writeln!(io::stdout(), "kvm: {state}\nprocess: not available yet");
    if kvm.is_ok() { ExitCode::SUCCESS } else { ExitCode::from(NOT_STARTED) }
}

fn kvm() -> Result<(), EngineError> {
    let memory = Memory::new(MemorySize::default()).map_err(|_| EngineError::Lacks("memory"))?;
    let engine = KvmEngine::new(memory)?;
    let mut vcpus = engine.vcpus(CpuCount::default().get())?;
    vcpus.iter_mut().try_for_each(|vcpu| vcpu.self_test())
}
