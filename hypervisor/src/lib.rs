//! A minimal, confined hypervisor for hermit images.
//!
//! It runs a program that is built for `x86_64-unknown-hermit` in a VM of its own: on KVM, or as a sandboxed
//! process on hosts without virtualisation hardware. The VM has no firmware and no PCI, only memory, CPUs,
//! virtio-mmio devices and six I/O ports ([`hermit_interface::machine`]). The guest is not trusted. An
//! invalid action of the guest leads to an error for the guest, or to the shutdown of the VM. All threads of
//! the hypervisor are confined before the guest's first instruction.
//!
//! # Example
//!
//! A [`vm::Vm`] is created from a [`config::Config`], loaded, and started. Its type parameter shows which
//! step it has reached.
//!
//! ```no_run
//! use uhyve::config::Config;
//! use uhyve::vm::Vm;
//! use uhyve::vcpu::shutdown::ShutdownCause;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let config = Config { cpus: "2".parse()?, ..Config::new("hello_world") };
//! let vm = Vm::new(config).load()?.start()?;
//! // Another thread may shut the VM down: `vm.handle().shut_down(ShutdownCause::Requested)`.
//! assert_eq!(vm.wait(None)?, ShutdownCause::Exited(0));
//! # Ok(())
//! # }
//! ```
//!
//! Error messages name a cause that the user can fix:
//!
//! ```
//! use uhyve::config::Config;
//! use uhyve::vm::{Vm, VmError};
//!
//! let error = Vm::new(Config::new("/nonexistent")).load().unwrap_err();
//! assert!(matches!(error, VmError::File(_)));
//! assert!(error.to_string().starts_with("cannot read /nonexistent: "));
//! ```
//!
//! Starting a VM confines the calling thread and all threads that it starts later. This cannot be undone. So
//! a program that uses this library starts each VM in a separate process, or at least in a separate thread.
//!
//! # Modules
//!
//! | module | |
//! | --- | --- |
//! | [`command`] | the command `uhyve`: its arguments, signals and exit codes |
//! | [`config`] | configuration of a VM, in types that exclude invalid values |
//! | [`image`] | image files, and loading one into memory |
//! | [`memory`] | guest memory |
//! | [`engine`] | vCPUs: a contract, KVM, the process engine, and the selection of one |
//! | [`devices`] | virtio devices; which of them a VM has, and their registers and interrupt lines |
//! | [`network`] | backends of the network device |
//! | [`vcpu`] | threads of vCPUs: run, pause, exit; the dispatch of their exits; the shutdown of a VM |
//! | [`sandbox`] | confinement of the hypervisor; protections that a host may lack |
//! | [`gdb`] | a server for gdb |
//! | [`host`] | facts and services of the host: log, random numbers, limits |
//! | [`report`] | how a run has ended, as JSON |
//! | [`vm`] | a VM: configured, loaded, running |

pub mod command;
pub mod config;
pub mod devices;
pub mod engine;
pub mod gdb;
pub mod host;
pub mod image;
pub mod memory;
pub mod network;
pub mod report;
pub mod sandbox;
pub mod vcpu;
pub mod vm;
