//! Protections that a host may lack. With `--require`, uhyve refuses to start without them. Otherwise it
//! prints a warning about a missing protection at each start.
//!
//! The warning is repeated at each start on purpose: each service has a log of its own.

use clap::ValueEnum;
use hermit_interface::boot_info::Platform;

use crate::config::Config;
use crate::host::log::say;
use crate::sandbox::{LandlockLevel, speculation};

/// Protection that `--require` demands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Protection {
    /// The guest runs on KVM.
    Kvm,
    /// The sandbox is not disabled.
    Sandbox,
    /// Landlock restricts files, TCP ports, signals and abstract sockets.
    Landlock,
    /// No other process runs on the other hyperthread of a CPU of the guest.
    CoreSched,
    /// The guest is in a jail.
    Jail,
}

/// A protection that is required is missing.
#[derive(Debug, thiserror::Error)]
#[error("--require: {reason}")]
pub struct MissingProtection {
    /// Protection that is missing.
    pub protection: Protection,
    /// Reason why the protection is missing.
    pub reason: String,
}

/// Checks all required protections except the engine, before anything is opened. The engine is not selected
/// yet.
pub(crate) fn check(config: &Config) -> Result<(), MissingProtection> {
    config.require.iter().try_for_each(|protection| {
        let reason = match protection {
            Protection::Kvm => None,
            Protection::Sandbox => (!config.sandbox).then(|| "--no-sandbox disables the sandbox".to_owned()),
            Protection::Jail => {
                config.jail.is_none().then(|| "there is no jail: add --jail UID:GID".to_owned())
            }
            Protection::Landlock => LandlockLevel::of_host().missing(),
            Protection::CoreSched => speculation::core_scheduling_missing(),
        };
        missing(*protection, reason)
    })
}

/// Checks the selected engine against the required protections.
pub(crate) fn check_engine(config: &Config, platform: Platform) -> Result<(), MissingProtection> {
    let is_process = config.require.contains(&Protection::Kvm) && platform == Platform::Process;
    missing(Protection::Kvm, is_process.then(|| "the guest would run as a process, not on KVM".to_owned()))
}

fn missing(protection: Protection, reason: Option<String>) -> Result<(), MissingProtection> {
    reason.map_or(Ok(()), |reason| Err(MissingProtection { protection, reason }))
}

/// Prints a warning that a protection is missing, even with `--quiet`.
pub(crate) fn warn(text: &str) {
    say(format_args!("warning: {text}"));
}

#[cfg(test)]
mod tests {
    use super::{Protection, check, check_engine};
    use crate::config::Config;
    use crate::config::jail::Jail;
    use hermit_interface::boot_info::Platform;

    fn requiring(protection: Protection) -> Config {
        Config { require: vec![protection], ..Config::new("image") }
    }

    #[test]
    fn missing_protection_is_named() {
        let config = Config { sandbox: false, ..requiring(Protection::Sandbox) };
        assert!(check(&config).unwrap_err().to_string().starts_with("--require: --no-sandbox"));
        check(&Config { sandbox: true, ..config }).unwrap();
        let config = requiring(Protection::Jail);
        assert_eq!(check(&config).unwrap_err().protection, Protection::Jail);
        check(&Config { jail: Some(Jail { uid: 1, gid: 1, root: None }), ..config }).unwrap();
        let config = requiring(Protection::Kvm);
        check(&config).unwrap();
        check_engine(&config, Platform::Uhyve).unwrap();
        assert_eq!(check_engine(&config, Platform::Process).unwrap_err().protection, Protection::Kvm);
        check_engine(&Config::new("image"), Platform::Process).unwrap();
    }
}
