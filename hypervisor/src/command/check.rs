//! `--check`: which engines work on this host, and which protections are in force.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use hermit_interface::boot_info::Platform;
use hermit_interface::exit::NOT_STARTED;

use crate::config::jail::Jail;
use crate::config::{Config, CpuCount, MemorySize};
use crate::engine::kvm::{self, KvmEngine, self_test};
use crate::engine::process::ProcessEngine;
use crate::host::log::say;
use crate::memory::Memory;
use crate::sandbox::protections::{self, MissingProtection, Protection};
use crate::sandbox::{LandlockLevel, filter_cost, jail, speculation};

/// Prints which engines work, and which protections are in force. The exit code is 0 if an engine runs guests
/// at native speed, and no protection in `required` is missing. With `allow_partial_sandbox`, the process
/// engine counts as working even if landlock is incomplete.
pub(crate) fn main(allow_partial_sandbox: bool, jail: Option<&Jail>, required: &[Protection]) -> ExitCode {
    let (kvm, process) = (kvm(), process(allow_partial_sandbox));
    let (kvm_works, process_works) = (kvm.is_ok(), process.is_ok());
    let missing = required_missing(required, jail, kvm_works);
    // Fails if the reader has closed the pipe.
    let _: io::Result<()> = print(&state(kvm), &state(process), jail);
    if let Some(missing) = &missing {
        say(format_args!("error: {missing}"));
    }
    let works = (kvm_works || process_works) && missing.is_none();
    if works { ExitCode::SUCCESS } else { ExitCode::from(NOT_STARTED) }
}

/// Returns the first required protection that a guest would not have.
fn required_missing(
    required: &[Protection],
    jail: Option<&Jail>,
    kvm_works: bool,
) -> Option<MissingProtection> {
    let config = Config { require: required.to_vec(), jail: jail.cloned(), ..Config::new("") };
    let platform = if kvm_works { Platform::Uhyve } else { Platform::Process };
    let engine = protections::check_engine(&config, platform);
    protections::check(&config).and(engine).err()
}

fn print(kvm: &str, process: &str, jail: Option<&Jail>) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "kvm: {kvm}\nprocess: {process}")?;
    writeln!(stdout, "landlock: {}", LandlockLevel::of_host().describe())?;
    writeln!(stdout, "system call filters: {}", filter_cost::report())?;
    speculation::report().iter().chain(&kvm::report()).try_for_each(|line| writeln!(stdout, "{line}"))?;
    // This must come last, because the process enters the jail.
    writeln!(stdout, "jail: {}", jail::try_out(jail))
}

fn state(result: Result<(), impl Display>) -> String {
    result.map_or_else(|error| error.to_string(), |()| "works, at full speed".to_owned())
}

fn kvm() -> anyhow::Result<()> {
    let engine = KvmEngine::new(Memory::new(MemorySize::default())?)?;
    let mut vcpus = engine.vcpus(CpuCount::default().get())?;
    Ok(vcpus.iter_mut().try_for_each(self_test)?)
}

fn process(allow_partial_sandbox: bool) -> anyhow::Result<()> {
    let engine = ProcessEngine::new(Memory::shared(MemorySize::default())?)?;
    engine.self_test()?;
    if !allow_partial_sandbox {
        LandlockLevel::of_host().require()?;
    }
    Ok(())
}
