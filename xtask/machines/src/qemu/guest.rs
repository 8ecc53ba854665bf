//! Guests and their machines.
//!
//! A [`Guest`] is the complete description of a machine in QEMU: machine type, accelerator, memory, devices,
//! and the program with its arguments. The module `command` turns the description into QEMU's command line,
//! and `process` runs QEMU. Some devices need two options, one for QEMU and one for the kernel: QEMU does not
//! tell a kernel that is booted by PVH where virtio-mmio devices are, so the kernel's command line names
//! their addresses. The methods of [`Board`] return these pairs of options for each machine type.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use hermit_interface::memory_size::MemorySize;
use hermit_options::mount::MountConfig;

/// Option of the kernel that makes it read standard input from the first virtio console.
const INPUT_OPTION: &str = "stdin=hvc0";

/// The bus of a virtio console on PCI.
const PCI_SERIAL: &str = "virtio-serial-pci,disable-legacy=on,max_ports=1";

/// The bus of a virtio console in the second of microvm's slots for virtio-mmio. QEMU itself fills the slots
/// from the last one on. The first slot cannot be used: its interrupt is input 0 of the second I/O APIC, and
/// QEMU delivers input 0 of each I/O APIC as input 2.
const MMIO_SERIAL: &str = "virtio-serial-device,max_ports=1,bus=virtio-mmio-bus.1";

/// Option of the kernel with the address and the interrupt of the console's slot, for machines with ACPI.
/// QEMU does not pass them to a kernel that is booted by PVH.
const MMIO_SLOT: &str = "virtio_mmio.device=512@0xfeb00200:25";

/// A virtio balloon device on PCI, which returns free memory to the host.
pub const PCI_BALLOON: &str = "virtio-balloon-pci,free-page-reporting=on,disable-legacy=on";

/// A virtio balloon device in the third of microvm's slots for virtio-mmio.
const MMIO_BALLOON: &str = "virtio-balloon-device,free-page-reporting=on,bus=virtio-mmio-bus.2";

/// Option of the kernel with the address and the interrupt of the balloon's slot.
const MMIO_BALLOON_SLOT: &str = "virtio_mmio.device=512@0xfeb00400:26";

/// A machine type of QEMU (`-M`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Board {
    /// The smallest one, which starts fastest
    #[default]
    Microvm,
    /// The classic PC, with PCI
    Pc,
    /// The PC with PCI Express
    Q35,
}

impl Board {
    /// Returns QEMU's options for the bus of a virtio console.
    pub(super) const fn input_bus(self) -> &'static [&'static str] {
        match self {
            Self::Microvm => &["-global", "virtio-mmio.force-legacy=false", "-device", MMIO_SERIAL],
            Self::Pc | Self::Q35 => &["-device", PCI_SERIAL],
        }
    }

    /// Returns the kernel's options for input from a virtio console on that bus.
    pub(super) const fn input_options(self) -> &'static [&'static str] {
        match self {
            Self::Microvm => &[MMIO_SLOT, INPUT_OPTION],
            Self::Pc | Self::Q35 => &[INPUT_OPTION],
        }
    }

    /// Returns QEMU's options for a balloon device.
    pub(super) const fn balloon(self) -> &'static [&'static str] {
        match self {
            Self::Microvm => &["-global", "virtio-mmio.force-legacy=false", "-device", MMIO_BALLOON],
            Self::Pc | Self::Q35 => &["-device", PCI_BALLOON],
        }
    }

    /// Returns the kernel's options for that device.
    pub(super) const fn balloon_options(self) -> &'static [&'static str] {
        match self {
            Self::Microvm => &[MMIO_BALLOON_SLOT],
            Self::Pc | Self::Q35 => &[],
        }
    }

    /// Returns the value of QEMU's option `-M`. For `microvm`, the value also enables devices of a PC that
    /// the kernel uses.
    pub(super) fn option(self) -> &'static str {
        match self {
            Self::Microvm => "microvm,pit=on,pic=on,rtc=on,isa-serial=on",
            Self::Pc => "pc",
            Self::Q35 => "q35",
        }
    }
}

/// An accelerator of QEMU (`-accel`), which executes the code of the guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Accelerator {
    /// QEMU translates the guest's code.
    #[default]
    Tcg,
    /// The host's kernel runs the guest's code, on hardware or in software emulation.
    Kvm,
}

impl Accelerator {
    /// Returns the value of QEMU's option `-cpu`, which enables all features that the accelerator offers. One
    /// exception: QEMU 7.2 aborts if KVM offers the register IA32_ARCH_CAPABILITIES but then refuses to set
    /// it.
    pub(super) fn cpu_model(self) -> &'static str {
        match self {
            Self::Tcg => "max",
            Self::Kvm => "max,-arch-capabilities",
        }
    }

    /// Returns the value of QEMU's option `-accel`.
    pub(super) fn option(self) -> &'static str {
        match self {
            Self::Tcg => "tcg",
            Self::Kvm => "kvm",
        }
    }
}

/// A guest and its machine.
#[derive(Debug, Clone)]
pub struct Guest {
    /// The file that QEMU boots: the loader, or a boot image.
    pub kernel: PathBuf,
    /// The image that the loader boots; `None` for a boot image.
    pub image: Option<PathBuf>,
    /// Initramfs: a tar archive with the initial files.
    pub initramfs: Option<PathBuf>,
    /// Machine type.
    pub board: Board,
    /// Accelerator.
    pub accelerator: Accelerator,
    /// Memory of the machine.
    pub memory: MemorySize,
    /// Number of CPUs.
    pub cpus: u32,
    /// The program's `argv[0]`.
    pub name: OsString,
    /// The program's arguments.
    pub arguments: Vec<OsString>,
    /// The program's environment, each `KEY=VALUE`.
    pub environment: Vec<OsString>,
    /// Time limit, after which the guest is killed.
    pub timeout: Option<Duration>,
    /// Time from a signal to this process until the guest is killed, if the guest's program handles requests
    /// to end.
    pub grace: Duration,
    /// Print QEMU's command line.
    pub verbose: bool,
    /// Further options of QEMU.
    pub extra_options: Vec<String>,
    /// Options of the kernel on its command line.
    pub kernel_options: Vec<String>,
    /// Mounts of the kernel, in the order of the devices' tags.
    pub mounts: Vec<MountConfig>,
    /// Directory in which the program starts; `None` is the root.
    pub workdir: Option<String>,
    /// True if the guest's standard input is a virtio console, which reads from a FIFO in QEMU's folder.
    /// Otherwise standard input is the first serial port, which is slow: it transfers one or two bytes in
    /// each iteration of QEMU's main loop.
    pub has_input_device: bool,
    /// True if the machine has a balloon device, which returns free memory to the host.
    pub has_balloon: bool,
    /// True if the machine has a second serial port for the guest's standard error. Otherwise standard output
    /// and standard error are one stream.
    pub has_error_stream: bool,
}

impl Guest {
    /// Returns a guest with the default machine: microvm, one CPU, TCG.
    pub fn new(kernel: PathBuf, image: Option<PathBuf>, name: OsString) -> Self {
        Self {
            kernel,
            image,
            initramfs: None,
            board: Board::default(),
            accelerator: Accelerator::default(),
            memory: MemorySize::default(),
            cpus: 1,
            name,
            arguments: Vec::new(),
            environment: Vec::new(),
            timeout: None,
            grace: Duration::ZERO,
            verbose: false,
            extra_options: Vec::new(),
            kernel_options: Vec::new(),
            mounts: Vec::new(),
            workdir: None,
            has_input_device: false,
            has_balloon: false,
            has_error_stream: true,
        }
    }

    /// Adds options of QEMU.
    pub fn with_options(mut self, options: &[&str]) -> Self {
        self.extra_options.extend(options.iter().map(|&option| option.to_owned()));
        self
    }

    /// Adds an option of the kernel.
    pub fn with_kernel_option(mut self, option: &str) -> Self {
        self.kernel_options.push(option.to_owned());
        self
    }
}
