//! A platform for unit tests on the host: it has no devices and one CPU, and counts the flushes of its TLB.

use core::cell::Cell;
use std::process;
use std::thread_local;

use hermit_interface::boot_info::BootInfo;
use hermit_paging::FlushScope;
use hermit_virtio::transport::pci::{ConfigSpace, MsiMessage};

use crate::arch::processor::Processor;
use crate::console::Stream;
use crate::fallible::OutOfMemory;
use crate::ops::{
    self, CpuControl, CpuTimer, DeviceAccess, IrqChip, MemoryReturn, Mmu, Platform, PlatformConsole, Power,
    RegisterAccess, Smp, TimeSource,
};

thread_local! {
    static FLUSH_COUNT: Cell<usize> = const { Cell::new(0) };
    static MEMORY_RETURN: Cell<MemoryReturn> = const { Cell::new(MemoryReturn::Never) };
}

/// Number of TLB flushes that the calling test has caused.
pub(crate) fn flush_count() -> usize {
    FLUSH_COUNT.get()
}

/// Sets the way in which the platform takes memory back in the calling test. Initially the platform does not
/// take memory back.
pub(crate) fn set_memory_return(kind: MemoryReturn) {
    MEMORY_RETURN.set(kind);
}

/// Sets this platform.
pub(crate) fn set_platform() {
    ops::set(&TestPlatform);
}

struct TestPlatform;

impl Platform for TestPlatform {}

impl PlatformConsole for TestPlatform {
    fn write(&self, _stream: Stream, _bytes: &[u8]) {}
}

impl CpuControl for TestPlatform {
    fn enter(&self, _processor: &Processor) {}

    fn enable_interrupts(&self) {}

    fn wait_unless(&self, _woken: &dyn Fn() -> bool) {}

    fn stop(&self) -> ! {
        process::abort()
    }
}

impl DeviceAccess for TestPlatform {
    fn registers(&self, _physical: u64, _size: u64) -> Result<Option<RegisterAccess>, OutOfMemory> {
        Ok(None)
    }

    fn pci_config(&self) -> Option<&'static dyn ConfigSpace> {
        None
    }
}

impl IrqChip for TestPlatform {
    fn init_irqs(&self) {}

    fn acknowledge(&self, _line: u8) -> bool {
        true
    }

    fn msi_message(&self, _cpu: u32, _line: u8) -> Option<MsiMessage> {
        None
    }
}

impl Mmu for TestPlatform {
    fn memory_return(&self) -> MemoryReturn {
        MEMORY_RETURN.get()
    }

    fn has_other_tlbs(&self) -> bool {
        true
    }

    fn flush_tlb(&self, _scope: FlushScope) {
        FLUSH_COUNT.set(FLUSH_COUNT.get() + 1);
    }
}

impl Power for TestPlatform {
    fn exit(&self, _status: u8) -> ! {
        process::abort()
    }
}

impl Smp for TestPlatform {
    fn init_topology(&self, _info: &BootInfo) {}

    fn cpu_count(&self) -> u32 {
        1
    }

    fn start_secondary(&self, _prepared: u32) {}

    fn init_secondary(&self, _cpu: u32) {}

    fn send_reschedule(&self, _cpu: u32) {}

    fn stop_others(&self) {}
}

impl TimeSource for TestPlatform {
    fn measure_counter(&self) -> u64 {
        1
    }

    fn wall_clock(&self) -> Option<hermit_clock::HostTime> {
        None
    }
}

impl CpuTimer for TestPlatform {
    fn set_timer(&self, _timeout_ns: u64) {}
}
