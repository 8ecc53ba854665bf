//! What a machine is to be, in types that cannot hold a bad value.

pub mod network;

use std::ffi::OsString;
use std::fmt;
use std::num::NonZeroU32;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::str::FromStr;

use hermit_interface::MAX_CPUS;

pub use hermit_interface::memory_size::MemorySize;

use self::network::NetworkConfig;

/// A machine and what runs in it.
#[derive(Clone, Debug)]
pub struct Config {
    /// The image's file.
    pub image: PathBuf,
    /// The program's arguments, without its name.
    pub arguments: Vec<OsString>,
    /// The program's environment.
    pub environment: Vec<Variable>,
    /// How many processors.
    pub cpus: CpuCount,
    /// How much memory.
    pub memory: MemorySize,
    /// Disks, in the order in which the guest finds them.
    pub disks: Vec<DiskConfig>,
    /// The network device, if there is one.
    pub network: Option<NetworkConfig>,
    /// What runs the processors.
    pub engine: EngineKind,
    /// Whether the hypervisor confines itself ([`crate::sandbox`]): always, but to debug it.
    pub sandbox: bool,
    /// The port on which the machine waits for gdb ([`crate::gdb`]), if it is to be debugged; 0 is any that is free.
    pub gdb: Option<u16>,
}

/// What runs a machine's processors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum EngineKind {
    /// KVM if it runs code at full speed, otherwise a process.
    #[default]
    Auto,
    /// KVM, even if it merely emulates.
    Kvm,
    /// A sandboxed process, without virtualisation hardware.
    Process,
}

/// A number of processors that a machine can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuCount(NonZeroU32);

impl CpuCount {
    /// As a number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0.get()
    }
}

impl Default for CpuCount {
    fn default() -> Self {
        Self(NonZeroU32::MIN)
    }
}

impl fmt::Display for CpuCount {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

impl FromStr for CpuCount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.parse::<NonZeroU32>().ok().filter(|number| number.get() as usize <= MAX_CPUS);
        number.map(Self).ok_or_else(|| format!("a machine has 1 to {MAX_CPUS} CPUs, not `{text}`"))
    }
}

/// An environment variable, `KEY=VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable(OsString);

impl Variable {
    /// The variable as the guest gets it.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.0.into_vec()
    }
}

impl TryFrom<OsString> for Variable {
    type Error = String;

    fn try_from(text: OsString) -> Result<Self, String> {
        match text.as_encoded_bytes().iter().position(|&byte| byte == b'=') {
            Some(1..) => Ok(Self(text)),
            _ => Err("an environment variable is written KEY=VALUE".to_owned()),
        }
    }
}

/// A file that the guest sees as a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskConfig {
    /// The file: raw bytes, without a format of its own.
    pub file: PathBuf,
    /// The guest cannot write it.
    pub read_only: bool,
}

impl FromStr for DiskConfig {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (file, read_only) = text.strip_suffix(":ro").map_or((text, false), |file| (file, true));
        if file.is_empty() {
            return Err("a disk is written FILE or FILE:ro".to_owned());
        }
        Ok(Self { file: file.into(), read_only })
    }
}

#[cfg(test)]
mod tests {
    use super::{CpuCount, DiskConfig, Variable};
    use std::ffi::OsString;

    #[test]
    fn a_machine_has_1_to_64_cpus() {
        assert_eq!("64".parse::<CpuCount>().unwrap().get(), 64);
        for text in ["0", "65", "-1", "two", ""] {
            assert!(text.parse::<CpuCount>().unwrap_err().contains("1 to 64"), "{text}");
        }
    }

    #[test]
    fn a_variable_has_a_name() {
        let parse = |text: &str| Variable::try_from(OsString::from(text));
        assert_eq!(parse("A=b=c").unwrap().into_bytes(), b"A=b=c");
        assert!(parse("A=").is_ok());
        for text in ["", "A", "=b"] {
            assert!(parse(text).unwrap_err().contains("KEY=VALUE"), "{text}");
        }
    }

    #[test]
    fn a_disk_may_be_read_only() {
        assert_eq!("a.img".parse(), Ok(DiskConfig { file: "a.img".into(), read_only: false }));
        assert_eq!("/x/a:ro".parse(), Ok(DiskConfig { file: "/x/a".into(), read_only: true }));
        assert!(":ro".parse::<DiskConfig>().is_err());
    }
}
