//! Common parts of platforms with privilege and local APICs.

pub(super) mod apic;
pub(super) mod kvm_clock;
mod pci_config;
pub(super) mod register_page;
pub(super) mod smp;

use hermit_interface::boot_info::BootInfo;
use hermit_interface::exit::{QUIT_PORT, SHUTDOWN_HANDLED_PORT, STATUS_PORT};
use hermit_paging::FlushScope;
use hermit_virtio::transport::pci::ConfigSpace;

use crate::arch::cpu;
use crate::arch::processor::Processor;
use crate::arch::x86_64::port::Register;
use crate::arch::x86_64::trap::{RESCHEDULE_VECTOR, TLB_VECTOR};
use crate::fallible::OutOfMemory;
use crate::interrupts::Masked;
use crate::ops::{CpuControl, CpuTimer, DeviceAccess, MemoryReturn, Mmu, RegisterAccess, Smp};
use crate::traps::Traps;
use crate::{memory, tlb};
use apic::Ipi;
use pci_config::PortConfig;

/// Signature in CPUID of QEMU's emulator.
const TCG: [u32; 3] =
    [u32::from_le_bytes(*b"TCGT"), u32::from_le_bytes(*b"CGTC"), u32::from_le_bytes(*b"GTCG")];

/// A platform on which the kernel may use privileged instructions and has local APICs.
pub(super) trait Native: Sync {
    /// See [`Mmu::memory_return`].
    fn memory_return(&self) -> MemoryReturn;

    /// See [`Mmu::return_memory`].
    ///
    /// # Safety
    ///
    /// See [`Mmu::return_memory`].
    unsafe fn return_memory(&self, _physical: u64, _size: u64) {}
}

impl<P: Native> CpuControl for P {
    fn enter(&self, processor: &Processor) {
        processor.enter::<Traps>();
    }

    fn enable_interrupts(&self) {
        cpu::enable_interrupts();
    }

    fn wait_unless(&self, woken: &dyn Fn() -> bool) {
        tlb::enter_idle();
        cpu::wait_unless(woken);
        // Masked, since the handler of an interrupt that arrives here must not run before the flush.
        let _masked = Masked::new();
        tlb::leave_idle();
    }

    fn is_emulated(&self) -> bool {
        cpu::hypervisor() == Some(TCG)
    }

    fn stop(&self) -> ! {
        cpu::stop()
    }
}

impl<P: Native> Mmu for P {
    fn memory_return(&self) -> MemoryReturn {
        Native::memory_return(self)
    }

    unsafe fn return_memory(&self, physical: u64, size: u64) {
        // SAFETY: both have the same contract.
        unsafe { Native::return_memory(self, physical, size) };
    }

    fn has_other_tlbs(&self) -> bool {
        tlb::has_others()
    }

    fn flush_tlb(&self, scope: FlushScope) {
        // Masked, because the caller may not hold the memory lock, and then the thread could move to another
        // CPU.
        let _masked = Masked::new();
        tlb::flush_all_cpus(scope, |cpus| smp::send(cpus, Ipi::Fixed(TLB_VECTOR)));
    }
}

impl<P: Native> DeviceAccess for P {
    fn registers(&self, physical: u64, size: u64) -> Result<Option<RegisterAccess>, OutOfMemory> {
        Ok(memory::map_registers(physical, size)?.map(RegisterAccess::Mapped))
    }

    fn pci_config(&self) -> Option<&'static dyn ConfigSpace> {
        pci_config::is_present().then_some(&PortConfig)
    }
}

impl<P: Native> CpuTimer for P {
    fn set_timer(&self, timeout_ns: u64) {
        apic::set_timer(timeout_ns);
    }
}

impl<P: Native> Smp for P {
    fn init_topology(&self, info: &BootInfo) {
        smp::init(info);
    }

    fn cpu_count(&self) -> u32 {
        smp::count()
    }

    fn start_secondary(&self, prepared: u32) {
        smp::start_secondary(prepared);
    }

    fn init_secondary(&self, cpu: u32) {
        apic::init(false);
        smp::started(cpu);
        tlb::join();
    }

    fn send_reschedule(&self, cpu: u32) {
        apic::send(smp::apic_id(cpu), Ipi::Fixed(RESCHEDULE_VECTOR));
    }

    fn stop_others(&self) {
        if tlb::has_others() {
            apic::send_to_others(Ipi::Nmi);
        }
    }
}

/// Passes an exit status to the monitor and ends the machine, if the monitor listens at these ports.
pub(super) fn exit(status: u8) {
    // SAFETY: the monitor takes the status, which affects nothing in the guest.
    const STATUS: Register = unsafe { Register::new(STATUS_PORT) };
    // SAFETY: the monitor ends the machine, after which its memory is not used.
    const QUIT: Register = unsafe { Register::new(QUIT_PORT) };
    STATUS.write(status);
    QUIT.write(0);
}

/// Announces to the monitor that the program handles requests to end, if the monitor listens at this port.
pub(super) fn announce_shutdown_handler() {
    // SAFETY: the monitor notes the write, which affects nothing in the guest.
    const SHUTDOWN_HANDLED: Register = unsafe { Register::new(SHUTDOWN_HANDLED_PORT) };
    SHUTDOWN_HANDLED.write(1);
}
