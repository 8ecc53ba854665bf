//! Configuration of a machine, in types without invalid values.

pub mod network;

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::str::FromStr;

pub use hermit_interface::cpu_count::CpuCount;
pub use hermit_interface::memory_size::MemorySize;

use self::network::NetworkConfig;

/// Configuration of a machine and its guest.
#[derive(Clone, Debug)]
pub struct Config {
    /// File of the image.
    pub image: PathBuf,
    /// Arguments of the program, without its name.
    pub arguments: Vec<OsString>,
    /// Environment variables of the program.
    pub environment: Vec<Variable>,
    /// Number of vCPUs.
    pub cpus: CpuCount,
    /// Size of guest memory.
    pub memory: MemorySize,
    /// Disks, in the order of `/dev/vda`, `/dev/vdb`, ...
    pub disks: Vec<DiskConfig>,
    /// Network device, if there is one.
    pub network: Option<NetworkConfig>,
    /// Engine that executes the vCPUs.
    pub engine: EngineKind,
    /// Whether the hypervisor confines itself ([`crate::sandbox`]). Switched off only to debug the hypervisor.
    pub sandbox: bool,
    /// TCP port on which the machine waits for gdb ([`crate::gdb`]) before the guest starts; 0 is any free port.
    pub gdb: Option<u16>,
}

impl Config {
    /// Configuration for an image with the defaults of the command line: one CPU, no disks, no network, and the engine
    /// [`EngineKind::Auto`], in the sandbox.
    #[must_use]
    pub fn new(image: impl Into<PathBuf>) -> Self {
        Self {
            image: image.into(),
            arguments: Vec::new(),
            environment: Vec::new(),
            cpus: CpuCount::default(),
            memory: MemorySize::default(),
            disks: Vec::new(),
            network: None,
            engine: EngineKind::default(),
            sandbox: true,
            gdb: None,
        }
    }
}

/// Kind of engine, which executes the vCPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum EngineKind {
    /// KVM, unless it is missing or runs in software emulation; otherwise a process.
    #[default]
    Auto,
    /// KVM, even in software emulation.
    Kvm,
    /// A sandboxed process; needs no virtualisation hardware.
    Process,
}

/// An environment variable, `KEY=VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable(OsString);

impl Variable {
    /// The variable as in the guest's environment.
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

/// A file of the host as a disk of the guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskConfig {
    /// Raw disk image, or a block device.
    pub file: PathBuf,
    /// Whether the guest cannot write to it.
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
    use super::{DiskConfig, Variable};
    use std::ffi::OsString;

    #[test]
    fn variable_without_a_name_is_an_error() {
        let parse = |text: &str| Variable::try_from(OsString::from(text));
        assert_eq!(parse("A=b=c").unwrap().into_bytes(), b"A=b=c");
        assert!(parse("A=").is_ok());
        for text in ["", "A", "=b"] {
            assert!(parse(text).unwrap_err().contains("KEY=VALUE"), "{text}");
        }
    }

    #[test]
    fn disk_suffix_ro_is_read_only() {
        assert_eq!("a.img".parse(), Ok(DiskConfig { file: "a.img".into(), read_only: false }));
        assert_eq!("/x/a:ro".parse(), Ok(DiskConfig { file: "/x/a".into(), read_only: true }));
        assert!(":ro".parse::<DiskConfig>().is_err());
    }
}
