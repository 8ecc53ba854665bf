//! Processors by KVM.

mod cpuid;
mod debug;
mod internal;
mod registers;
mod self_test;
mod slots;
mod start;
mod vcpu;

use std::io;

use hermit_interface::machine::{FIRST_VECTOR, LINES};
use kvm_bindings::{
    KVM_CAP_SPLIT_IRQCHIP, KVM_IRQ_ROUTING_MSI, KvmIrqRouting, kvm_enable_cap, kvm_irq_routing_entry,
    kvm_irq_routing_entry__bindgen_ty_1, kvm_irq_routing_msi,
};
use kvm_ioctls::{Cap, IoEventAddress, Kvm, VmFd};
use vmm_sys_util::eventfd::EventFd;

use super::{Engine, EngineError, Vcpu};
use crate::devices::virtio::Interrupt;
use crate::memory::Memory;
pub use vcpu::KvmVcpu;

/// Three pages that Intel's processors need for real mode, in the hole of the memory.
const REAL_MODE_PAGES: usize = 0xfffb_d000;

/// Where messages to local APICs are written (SDM volume 3, section 12.11.1): to the APIC with identifier 0.
const MESSAGE_ADDRESS: u32 = 0xfee0_0000;

/// A machine of KVM's.
#[derive(Debug)]
pub struct KvmEngine {
    kvm: Kvm,
    vm: VmFd,
    /// The machine's memory must not go while KVM has it.
    memory: Memory,
}

/// Turns the host's error into one that says what was asked for.
fn failed(what: &'static str) -> impl Fn(kvm_ioctls::Error) -> EngineError {
    move |error| EngineError::Request { what, source: io::Error::from_raw_os_error(error.errno()) }
}

impl KvmEngine {
    /// A machine with this memory and no processors.
    ///
    /// # Errors
    ///
    /// See [`EngineError`].
    pub fn new(memory: Memory) -> Result<Self, EngineError> {
        let kvm = Kvm::new().map_err(|error| match error.errno() {
            libc::ENOENT | libc::ENODEV | libc::ENXIO => EngineError::Missing,
            libc::EACCES | libc::EPERM => EngineError::Forbidden,
            _ => failed("be opened")(error),
        })?;
        let needed = [
            (Cap::Irqfd, "irqfd"),
            (Cap::Ioeventfd, "ioeventfd"),
            (Cap::UserMemory, "user memory"),
            (Cap::SplitIrqchip, "split interrupt controllers"),
            (Cap::GetTscKhz, "frequency of the time-stamp counter"),
        ];
        if let Some((_, what)) = needed.iter().find(|(capability, _)| !kvm.check_extension(*capability)) {
            return Err(EngineError::Lacks(what));
        }
        let vm = kvm.create_vm().map_err(failed("create a machine"))?;
        vm.set_tss_address(REAL_MODE_PAGES).map_err(failed("reserve pages for real mode"))?;
        // Local APICs in the host's kernel; no 8259A, no I/O APIC, no 8254.
        let split = kvm_enable_cap { cap: KVM_CAP_SPLIT_IRQCHIP, ..kvm_enable_cap::default() };
        vm.enable_cap(&split).map_err(failed("make interrupt controllers"))?;
        slots::give(&vm, &memory)?;
        let engine = Self { kvm, vm, memory };
        engine.route_lines()?;
        Ok(engine)
    }

    /// Each line is a message to the first processor's APIC.
    fn route_lines(&self) -> Result<(), EngineError> {
        let entries: Vec<_> = (0..LINES)
            .map(|line| kvm_irq_routing_entry {
                gsi: line,
                type_: KVM_IRQ_ROUTING_MSI,
                u: kvm_irq_routing_entry__bindgen_ty_1 {
                    msi: kvm_irq_routing_msi {
                        address_lo: MESSAGE_ADDRESS,
                        data: u32::from(FIRST_VECTOR) + line,
                        ..kvm_irq_routing_msi::default()
                    },
                },
                ..kvm_irq_routing_entry::default()
            })
            .collect();
        let routing = KvmIrqRouting::from_entries(&entries)
            .map_err(|_| EngineError::Lacks("room for interrupt lines"))?;
        self.vm.set_gsi_routing(&routing).map_err(failed("route interrupts"))
    }
}

impl Engine for KvmEngine {
    fn vcpus(&self, count: u32) -> Result<Vec<Box<dyn Vcpu>>, EngineError> {
        if usize::try_from(count).is_ok_and(|count| count > self.kvm.get_max_vcpus()) {
            return Err(EngineError::Lacks("support for so many CPUs"));
        }
        let vcpu = |number| -> Result<Box<dyn Vcpu>, EngineError> {
            Ok(Box::new(KvmVcpu::new(self, number, count)?))
        };
        (0..count).map(vcpu).collect()
    }

    fn interrupt(&self, line: u32) -> Result<Box<dyn Interrupt>, EngineError> {
        let event = EventFd::new(libc::EFD_NONBLOCK | libc::EFD_CLOEXEC)
            .map_err(|source| EngineError::Request { what: "make an event", source })?;
        self.vm.register_irqfd(&event, line).map_err(failed("connect an interrupt"))?;
        Ok(Box::new(event))
    }

    fn notify(&self, address: u64, queue: u32, kick: &EventFd) -> Result<(), EngineError> {
        let address = IoEventAddress::Mmio(address);
        self.vm.register_ioevent(kick, &address, queue).map_err(failed("watch a register"))
    }
}
