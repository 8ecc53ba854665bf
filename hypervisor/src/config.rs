//! Configuration of a machine, in types that exclude invalid values.

pub mod jail;

use std::ffi::OsString;
use std::path::PathBuf;

pub use hermit_interface::cpu_count::CpuCount;
pub use hermit_interface::memory_size::MemorySize;
pub use hermit_options::disk::DiskConfig;
pub use hermit_options::environment::Variable;
pub use hermit_options::gdb::GdbAddress;
pub use hermit_options::mount::MountConfig;
pub use hermit_options::network;

use self::jail::Jail;
use self::network::NetworkConfig;
use crate::network::passed::PassedSocket;
use crate::sandbox::protections::Protection;

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
    /// Folders of the host that the guest mounts.
    pub mounts: Vec<MountConfig>,
    /// Directory of the guest in which the program starts; `None` means the root.
    pub workdir: Option<String>,
    /// Folder or tar archive with the initramfs. If `None`, a boot image may contain the initramfs.
    pub root: Option<PathBuf>,
    /// Network device, if there is one.
    pub network: Option<NetworkConfig>,
    /// Passed sockets whose clients are forwarded to the guest, in addition to the ports of `network`.
    pub passed_sockets: Vec<PassedSocket>,
    /// How the guest's output is written.
    pub console: ConsoleMode,
    /// Engine that executes the vCPUs.
    pub engine: EngineKind,
    /// True if the hypervisor confines itself ([`crate::sandbox`]). It is false only to debug the hypervisor.
    pub sandbox: bool,
    /// Jail of the hypervisor and the guest's process, if they have one.
    pub jail: Option<Jail>,
    /// True if a guest may run as a process although landlock is incomplete.
    pub allow_partial_sandbox: bool,
    /// Protections without which the guest is not started.
    pub require: Vec<Protection>,
    /// Kinds of speculative execution that are disabled.
    pub mitigations: Mitigations,
    /// Address on which the machine waits for gdb ([`crate::gdb`]) before the guest starts.
    pub gdb: Option<GdbAddress>,
    /// Seconds by which the guest sees the host's wall clock step after its first reading. For tests; 0
    /// otherwise.
    pub test_clock_step: i64,
}

impl Config {
    /// Returns the configuration of an image with the defaults of the command line: one CPU, no disks, no
    /// mounts, no network, the engine [`EngineKind::Auto`], and the sandbox.
    #[must_use]
    pub fn new(image: impl Into<PathBuf>) -> Self {
        Self {
            image: image.into(),
            arguments: Vec::new(),
            environment: Vec::new(),
            cpus: CpuCount::default(),
            memory: MemorySize::default(),
            disks: Vec::new(),
            mounts: Vec::new(),
            workdir: None,
            root: None,
            network: None,
            passed_sockets: Vec::new(),
            console: ConsoleMode::default(),
            engine: EngineKind::default(),
            sandbox: true,
            jail: None,
            allow_partial_sandbox: false,
            require: Vec::new(),
            mitigations: Mitigations::default(),
            gdb: None,
            test_clock_step: 0,
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

/// Set of speculation controls that processes of the host get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Mitigations {
    /// Indirect branch speculation, in a guest's process: it could read other processes.
    #[default]
    Auto,
    /// Also speculative store bypass, which reads its own process only; and both in uhyve.
    Strict,
}

/// How the guest's output is written to standard output and standard error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ConsoleMode {
    /// Escaped on a terminal, raw elsewhere.
    #[default]
    Auto,
    /// Every byte unchanged, also on a terminal.
    Raw,
    /// Control characters in visible form, except newlines, tabs, colours and erasing of lines.
    Escaped,
}
