//! KVM engine: each vCPU of the VM is a KVM vCPU.
//!
//! KVM emulates the local APICs, and there is no other interrupt controller. Each interrupt line of a device
//! is an irqfd, whose signal KVM delivers as an MSI to the boot CPU. Each virtqueue notification is an
//! ioeventfd. So neither interrupts nor notifications make a vCPU exit to this process. When the VM is
//! created, features that a guest could use against the host are disabled or limited: performance counters,
//! MSRs, bus locks, and code that keeps a CPU from taking interrupts.

mod cpuid;
mod debug;
mod error;
mod host_protection;
mod initial_state;
mod internal_error;
mod memory;
mod msrs;
mod registers;
mod self_test;
mod vcpu;

use std::thread;

use hermit_interface::machine::{FIRST_VECTOR, LINES};
use kvm_bindings::{
    CpuId, KVM_CAP_PMU_CAPABILITY, KVM_CAP_SPLIT_IRQCHIP, KVM_IRQ_ROUTING_MSI, KVM_PMU_CAP_DISABLE,
    KvmIrqRouting, kvm_enable_cap, kvm_irq_routing_entry, kvm_irq_routing_entry__bindgen_ty_1,
    kvm_irq_routing_msi,
};
use kvm_ioctls::{Cap, IoEventAddress, Kvm, VmFd};
use vmm_sys_util::eventfd::EventFd;

use self::error::ioctl_failed;
use super::{Engine, EngineError};
use crate::devices::virtio::Interrupt;
use crate::memory::Memory;

pub use self::error::KvmError;
pub(crate) use self::host_protection::report;
pub(crate) use self::self_test::self_test;
pub use self::vcpu::KvmVcpu;

/// Address in the memory hole of the three pages that KVM needs for real mode on Intel CPUs
/// (`KVM_SET_TSS_ADDR`).
const TSS_ADDRESS: usize = 0xfffb_d000;

/// Address to which an MSI is written (SDM volume 3, section 12.11.1); the destination is the APIC with ID 0.
const MSI_ADDRESS: u32 = 0xfee0_0000;

/// KVM, and one of its VMs.
#[derive(Debug)]
pub struct KvmEngine {
    kvm: Kvm,
    vm: KvmVm,
    /// CPUID entries that are common to all vCPUs.
    supported_cpuid: CpuId,
}

/// VM of KVM.
#[derive(Debug)]
struct KvmVm {
    fd: VmFd,
    /// Guest memory, which must stay mapped as long as `fd` exists.
    memory: Memory,
}

impl KvmEngine {
    /// Creates a VM with this memory. It has no vCPUs yet.
    ///
    /// # Errors
    ///
    /// See [`KvmError`].
    pub fn new(memory: Memory) -> Result<Self, KvmError> {
        let kvm = Kvm::new().map_err(|error| match error.errno() {
            libc::ENOENT | libc::ENODEV | libc::ENXIO => KvmError::NoDevice,
            libc::EACCES | libc::EPERM => KvmError::PermissionDenied,
            _ => ioctl_failed("be opened")(error),
        })?;
        let needed = [
            (Cap::Irqfd, "irqfd"),
            (Cap::Ioeventfd, "ioeventfd"),
            (Cap::UserMemory, "user memory"),
            (Cap::SplitIrqchip, "split interrupt controllers"),
            (Cap::GetTscKhz, "frequency of the time-stamp counter"),
        ];
        if let Some((_, what)) = needed.iter().find(|(capability, _)| !kvm.check_extension(*capability)) {
            return Err(KvmError::Unsupported(what));
        }
        // The two calls run in parallel, because they take about the same time, and longer than everything
        // else before the guest runs.
        let (vm, supported_cpuid) = thread::scope(|scope| {
            let supported = scope.spawn(|| cpuid::supported(&kvm));
            let vm = KvmVm::new(&kvm, memory);
            (vm, supported.join().unwrap_or(Err(KvmError::Unsupported("list of CPUID entries"))))
        });
        Ok(Self { vm: vm?, supported_cpuid: supported_cpuid?, kvm })
    }

    /// Creates the vCPUs with the IDs 0 to `count - 1`.
    ///
    /// # Errors
    ///
    /// See [`KvmError`].
    pub fn vcpus(&self, count: u32) -> Result<Vec<KvmVcpu>, KvmError> {
        if usize::try_from(count).is_ok_and(|count| count > self.kvm.get_max_vcpus()) {
            return Err(KvmError::Unsupported("support for so many CPUs"));
        }
        (0..count).map(|id| KvmVcpu::new(self, id, count)).collect()
    }
}

impl KvmVm {
    /// Creates a VM with this memory, local APICs, and the restrictions that protect the host.
    fn new(kvm: &Kvm, memory: Memory) -> Result<Self, KvmError> {
        let vm = kvm.create_vm().map_err(ioctl_failed("create a VM"))?;
        vm.set_tss_address(TSS_ADDRESS).map_err(ioctl_failed("reserve pages for real mode"))?;
        // Only the local APICs are emulated in the host's kernel: no 8259A, no I/O APIC, no 8254.
        let split = kvm_enable_cap { cap: KVM_CAP_SPLIT_IRQCHIP, ..kvm_enable_cap::default() };
        vm.enable_cap(&split).map_err(ioctl_failed("create interrupt controllers"))?;
        if kvm.check_extension_raw(KVM_CAP_PMU_CAPABILITY.into()) & KVM_PMU_CAP_DISABLE.cast_signed() != 0 {
            let no_pmu = enabled(KVM_CAP_PMU_CAPABILITY, KVM_PMU_CAP_DISABLE);
            vm.enable_cap(&no_pmu).map_err(ioctl_failed("disable performance counters"))?;
        }
        for protection in host_protection::of(|capability| kvm.check_extension_raw(capability.into())) {
            vm.enable_cap(&protection)
                .map_err(ioctl_failed("protect the host from bus locks and stuck CPUs"))?;
        }
        msrs::restrict(kvm, &vm)?;
        let vm = Self { fd: vm, memory };
        vm.set_memory_regions()?;
        route_irq_lines(&vm.fd)?;
        Ok(vm)
    }
}

/// Routes each interrupt line as an MSI to the boot CPU's APIC.
fn route_irq_lines(vm: &VmFd) -> Result<(), KvmError> {
    let entries: Vec<_> = (0..LINES)
        .map(|line| kvm_irq_routing_entry {
            gsi: line,
            type_: KVM_IRQ_ROUTING_MSI,
            u: kvm_irq_routing_entry__bindgen_ty_1 {
                msi: kvm_irq_routing_msi {
                    address_lo: MSI_ADDRESS,
                    data: u32::from(FIRST_VECTOR) + line,
                    ..kvm_irq_routing_msi::default()
                },
            },
            ..kvm_irq_routing_entry::default()
        })
        .collect();
    let routing = KvmIrqRouting::from_entries(&entries)
        .map_err(|_| KvmError::Unsupported("room for interrupt lines"))?;
    vm.set_gsi_routing(&routing).map_err(ioctl_failed("route interrupts"))
}

/// Returns the argument of the ioctl that enables a capability of KVM.
fn enabled(capability: u32, argument: u32) -> kvm_enable_cap {
    kvm_enable_cap { cap: capability, args: [argument.into(), 0, 0, 0], ..kvm_enable_cap::default() }
}

impl Engine for KvmEngine {
    /// The line is an irqfd.
    fn irq_line(&self, line: u32) -> Result<Box<dyn Interrupt>, EngineError> {
        let event = EventFd::new(libc::EFD_NONBLOCK | libc::EFD_CLOEXEC)
            .map_err(|source| KvmError::Ioctl { action: "create an eventfd", source })?;
        self.vm.fd.register_irqfd(&event, line).map_err(ioctl_failed("register an irqfd"))?;
        Ok(Box::new(event))
    }

    /// The event is an ioeventfd.
    fn register_ioevent(&self, address: u64, queue: u32, event: &EventFd) -> Result<(), EngineError> {
        let address = IoEventAddress::Mmio(address);
        Ok(self
            .vm
            .fd
            .register_ioevent(event, &address, queue)
            .map_err(ioctl_failed("register an ioeventfd"))?)
    }
}
