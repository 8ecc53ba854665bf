//! Engine selection: `--engine kvm`, `process` or `auto`.

use std::env;

use hermit_interface::boot_info::Platform;

use super::kvm::{KvmEngine, KvmError, KvmVcpu, self_test};
use super::process::{ProcessEngine, ProcessError};
use super::{Engine, EngineError, Vcpu};
use crate::config::{Config, EngineKind};
use crate::devices::tsc::TscCalibration;
use crate::host::log::say;
use crate::memory::{Memory, MemoryError};

/// Why no engine can run the VM.
#[derive(Debug, thiserror::Error)]
pub enum SelectionError {
    /// See [`MemoryError`].
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// See [`KvmError`].
    #[error(transparent)]
    Kvm(#[from] KvmError),
    /// See [`ProcessError`].
    #[error(transparent)]
    Process(#[from] ProcessError),
}

/// Selected engine, the VM's memory (of the kind that the engine needs), and the vCPUs.
#[derive(Debug)]
pub(crate) struct SelectedEngine {
    pub(crate) platform: Platform,
    pub(crate) memory: Memory,
    pub(crate) engine: Box<dyn Engine>,
    pub(crate) vcpus: Vec<Box<dyn Vcpu>>,
}

impl SelectedEngine {
    /// Selects the configured engine. [`EngineKind::Auto`] selects KVM if it executes code at native speed,
    /// otherwise the process engine, which uses `calibration`.
    pub(crate) fn new(config: &Config, calibration: TscCalibration) -> Result<Self, SelectionError> {
        match config.engine {
            EngineKind::Kvm => Self::kvm(config, |_| Ok(())),
            EngineKind::Process => Self::process(config, calibration),
            EngineKind::Auto => match Self::kvm(config, self_test) {
                Err(SelectionError::Kvm(error)) => {
                    report(&error);
                    Self::process(config, calibration)
                }
                result => result,
            },
        }
    }

    /// Creates the VM on KVM. `test` examines the boot CPU and decides whether KVM is usable.
    fn kvm(
        config: &Config,
        test: impl FnOnce(&mut KvmVcpu) -> Result<(), KvmError>,
    ) -> Result<Self, SelectionError> {
        let memory = Memory::new(config.memory)?;
        let engine = KvmEngine::new(memory.clone())?;
        let mut vcpus = engine.vcpus(config.cpus.get())?;
        vcpus.first_mut().map_or(Ok(()), test)?;
        let vcpus = vcpus.into_iter().map(|vcpu| -> Box<dyn Vcpu> { Box::new(vcpu) }).collect();
        Ok(Self { platform: Platform::Uhyve, memory, engine: Box::new(engine), vcpus })
    }

    /// Creates the VM on the process engine; with `--gdb`, each vCPU can be debugged.
    fn process(config: &Config, calibration: TscCalibration) -> Result<Self, SelectionError> {
        let memory = Memory::shared(config.memory)?;
        let engine = ProcessEngine::new(memory.clone())?
            .calibrated_by(calibration)
            .with_mitigations(config.mitigations);
        let engine = match (&config.gdb, &config.jail) {
            (Some(_), _) => engine.traced(),
            (None, Some(_)) => engine.with_pid_namespace(),
            (None, None) => engine,
        };
        let vcpus = engine.vcpus(config.cpus.get());
        Ok(Self { platform: Platform::Process, memory, engine: Box::new(engine), vcpus })
    }

    /// Returns the boot CPU.
    pub(crate) fn boot_vcpu(&mut self) -> Result<&mut Box<dyn Vcpu>, EngineError> {
        self.vcpus.first_mut().ok_or(EngineError::NoVcpu)
    }
}

/// Logs why the guest does not run on KVM, which would isolate it better.
fn report(error: &KvmError) {
    let uhyve = env::current_exe().unwrap_or_else(|_| "uhyve".into());
    say(format_args!(
        "{}; guests run as processes (`{} --check` prints the state of each engine)",
        summary(error),
        uhyve.display()
    ));
}

/// Returns a short reason why KVM is not selected. It has no advice, because the guest runs on the process
/// engine.
fn summary(error: &KvmError) -> String {
    match error {
        KvmError::NoDevice => "there is no KVM here".to_owned(),
        KvmError::PermissionDenied => "no permission for KVM here".to_owned(),
        KvmError::SoftwareEmulation(_) => "KVM emulates the processor in software here".to_owned(),
        other => other.to_string(),
    }
}
