//! A minimal, confined hypervisor for hermit images.
//!
//! It runs a program that is built for `x86_64-unknown-hermit` in a VM of its own: on KVM, or as a sandboxed process on
//! hosts without virtualisation hardware. The VM has no firmware and no PCI, only memory, CPUs, virtio-mmio devices and
//! six I/O ports ([`hermit_interface::machine`]). The guest is not trusted: what it does is answered by an error to
//! the guest or by the shutdown of the VM, and all threads of the hypervisor are confined before the guest's first
//! instruction.
//!
//! # Example
//!
//! A [`vm::Vm`] is created from a [`config::Config`], loaded, and started; each step is a state of its type.
//!
//! ```no_run
//! use uhyve::config::Config;
//! use uhyve::vm::Vm;
//! use uhyve::vm_handle::ShutdownCause;
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
//! Errors name what the user can change:
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
//! Starting a VM confines the calling thread and all threads that it starts later, and cannot be undone: a program that
//! uses this library gives each VM a process, or at least a thread, of its own.
//!
//! # Modules
//!
//! | module | |
//! | --- | --- |
//! | [`config`], [`cli`] | configuration of a VM, in types that exclude invalid values; the command line |
//! | [`memory`] | guest memory |
//! | [`image`], [`boot`] | image files; loading an image into memory |
//! | [`engine`] | vCPUs: a contract, KVM, the process engine, and the selection of one |
//! | [`devices`], [`device_manager`] | virtio devices; which of them a VM has, and their registers and interrupt lines |
//! | [`network`] | backends of the network device |
//! | [`io_manager`] | dispatch of I/O exits to ports and devices |
//! | [`vcpu_manager`] | vCPU threads: run, pause, exit |
//! | [`sandbox`], [`protections`] | confinement of the hypervisor; what a host may lack of it |
//! | [`gdb`] | a server for gdb |
//! | [`vm`], [`vm_handle`] | a VM: configured, loaded, running; its shutdown |
//! | [`command`], [`signals`], [`report`], [`stats`], [`allocator`] | the command `uhyve` |

mod alarm;
pub mod allocator;
pub mod boot;
mod cgroup;
mod check;
pub mod cli;
pub mod command;
pub mod config;
mod descriptor_limit;
pub mod device_manager;
pub mod devices;
pub mod engine;
pub mod gdb;
pub mod image;
pub mod io_manager;
mod log;
pub mod memory;
pub mod network;
pub mod power_button;
pub mod protections;
mod random;
pub mod report;
pub mod sandbox;
pub mod signals;
mod standard_streams;
pub mod stats;
mod thread_id;
mod tsc;
pub mod vcpu_manager;
mod vcpu_thread;
pub mod vm;
pub mod vm_handle;
