//! Which engine runs a machine.

use hermit_interface::boot_info::Platform;

use crate::config::{Config, EngineKind};
use crate::engine::kvm::KvmEngine;
use crate::engine::process::ProcessEngine;
use crate::engine::{Engine, EngineError, Vcpu};
use crate::log::say;
use crate::memory::Memory;
use crate::vm::VmError;

/// What a machine is made of before it has devices.
#[derive(Debug)]
pub(crate) struct Choice {
    pub(crate) platform: Platform,
    pub(crate) memory: Memory,
    pub(crate) engine: Box<dyn Engine>,
    pub(crate) vcpus: Vec<Box<dyn Vcpu>>,
}

impl Choice {
    /// Takes the engine that the user wants, or the best one that works here.
    pub(crate) fn new(config: &Config) -> Result<Self, VmError> {
        match config.engine {
            EngineKind::Kvm => Self::kvm(config),
            EngineKind::Process => Self::process(config),
            EngineKind::Auto => match Self::kvm(config).and_then(Self::tested) {
                Err(VmError::Engine(error)) => {
                    say(format_args!("{}; the guest runs as a process (--check says more)", brief(&error)));
                    Self::process(config)
                }
                result => result,
            },
        }
    }

    fn kvm(config: &Config) -> Result<Self, VmError> {
        let memory = Memory::new(config.memory)?;
        let engine = Box::new(KvmEngine::new(memory.clone())?);
        Self::with_processors(Platform::Uhyve, memory, engine, config)
    }

    fn process(config: &Config) -> Result<Self, VmError> {
        let memory = Memory::shared(config.memory)?;
        let engine = ProcessEngine::new(memory.clone())?;
        let engine = if config.gdb.is_some() { engine.debugged() } else { engine };
        Self::with_processors(Platform::Process, memory, Box::new(engine), config)
    }

    fn with_processors(
        platform: Platform,
        memory: Memory,
        engine: Box<dyn Engine>,
        config: &Config,
    ) -> Result<Self, VmError> {
        let vcpus = engine.vcpus(config.cpus.get())?;
        Ok(Self { platform, memory, engine, vcpus })
    }

    /// The same, if it runs code at full speed.
    fn tested(mut self) -> Result<Self, VmError> {
        self.first()?.self_test()?;
        Ok(self)
    }

    pub(crate) fn first(&mut self) -> Result<&mut Box<dyn Vcpu>, EngineError> {
        self.vcpus.first_mut().ok_or(EngineError::Lacks("processors"))
    }
}

/// Why KVM does not serve, in few words: nobody need do anything about it.
fn brief(error: &EngineError) -> String {
    match error {
        EngineError::Missing => "there is no KVM here".to_owned(),
        EngineError::Forbidden => "KVM is not ours to use here".to_owned(),
        EngineError::Emulated(_) => "KVM merely emulates the processor here".to_owned(),
        other => other.to_string(),
    }
}
