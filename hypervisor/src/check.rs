//! `--check`: what this host offers.

use std::process::ExitCode;

use hermit_interface::exit::NOT_STARTED;

use crate::config::{CpuCount, MemorySize};
use crate::engine::kvm::KvmEngine;
use crate::engine::{Engine, EngineError, Vcpu};
use crate::memory::Memory;

/// Prints what can run images here. The exit code says whether something can at full speed.
pub(crate) fn main() -> ExitCode {
    let kvm = kvm();
    match &kvm {
        Ok(()) => println!("kvm: works, at full speed"),
        Err(error) => println!("kvm: {error}"),
    }
    println!("process: not available yet");
    if kvm.is_ok() { ExitCode::SUCCESS } else { ExitCode::from(NOT_STARTED) }
}

fn kvm() -> Result<(), EngineError> {
    let memory = Memory::new(MemorySize::default()).map_err(|_| EngineError::Lacks("memory"))?;
    let engine = KvmEngine::new(memory)?;
    let mut vcpus = engine.vcpus(CpuCount::default().get())?;
    vcpus.iter_mut().try_for_each(Vcpu::self_test)
}
