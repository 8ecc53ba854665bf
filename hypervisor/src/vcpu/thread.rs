//! vCPU threads: run a vCPU, and handle its exits.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::engine::{Vcpu, VcpuExit};
use crate::vcpu::io_manager::IoManager;
use crate::vcpu::manager::VcpuEndpoint;
use crate::vcpu::shutdown::{ShutdownCause, VmHandle};
use crate::vcpu::stats::ExitCounters;

/// Pause of a vCPU after a bus lock. A bus lock delays the memory accesses of all CPUs of the host, by a few
/// thousand cycles at most. The pause limits a vCPU to 1,000 bus locks per second.
const BUS_LOCK_PAUSE: Duration = Duration::from_millis(1);

/// Objects that a vCPU thread uses besides its vCPU.
pub(crate) struct VcpuContext {
    pub(crate) vm: Arc<VmHandle>,
    pub(crate) io: Arc<IoManager>,
    pub(crate) exits: Arc<ExitCounters>,
    pub(crate) endpoint: VcpuEndpoint,
}

impl VcpuContext {
    /// Body of a vCPU thread.
    pub(crate) fn run(self, mut vcpu: Box<dyn Vcpu>) {
        let vcpu = &mut *vcpu;
        if let Err(error) = vcpu.bind_to_thread() {
            self.vm.shut_down(ShutdownCause::Failed(error.to_string()));
            return;
        }
        let mut is_running = self.endpoint.wait_for_run(vcpu);
        while is_running && self.vm.shutdown_cause().is_none() {
            is_running = self.run_once(vcpu);
        }
    }

    /// Runs the guest until its next exit. Handles the exit, and pauses if there was a bus lock just before
    /// it. Returns false if the thread must exit.
    fn run_once(&self, vcpu: &mut dyn Vcpu) -> bool {
        let is_running = self.run_to_exit(vcpu);
        if vcpu.has_bus_lock() {
            self.exits.count(&VcpuExit::BusLock);
            thread::sleep(BUS_LOCK_PAUSE);
        }
        is_running
    }

    /// Runs the guest until its next exit, and handles the exit. Returns false if the thread must exit.
    fn run_to_exit(&self, vcpu: &mut dyn Vcpu) -> bool {
        let Self { vm, io, exits, endpoint } = self;
        let exit = vcpu.run();
        if let Ok(exit) = &exit {
            exits.count(exit);
        }
        match exit {
            Ok(VcpuExit::PioWrite(port, bytes)) => io.pio_write(port, bytes),
            Ok(VcpuExit::PioTryWrite { port, bytes, is_taken }) => *is_taken = io.try_pio_write(port, bytes),
            Ok(VcpuExit::PioRead(port, bytes)) => io.pio_read(port, bytes),
            Ok(VcpuExit::MmioWrite(address, bytes)) => io.mmio_write(address, bytes),
            Ok(VcpuExit::MmioRead(address, bytes)) => io.mmio_read(address, bytes),
            Ok(VcpuExit::Interrupted) => return endpoint.interrupted(vcpu),
            Ok(VcpuExit::Debug(event)) => return endpoint.stopped(vcpu, event),
            Ok(VcpuExit::BusLock) => thread::sleep(BUS_LOCK_PAUSE),
            Ok(VcpuExit::Reset) => vm.shut_down(ShutdownCause::Reset),
            Ok(VcpuExit::Failed) => match vcpu.failed_at_breakpoint() {
                Some(event) => return endpoint.stopped(vcpu, event),
                None => vm.shut_down(ShutdownCause::Failed(vcpu.failure())),
            },
            Ok(VcpuExit::Denied) => vm.shut_down(ShutdownCause::Denied(vcpu.failure())),
            Err(error) => vm.shut_down(ShutdownCause::Failed(error.to_string())),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use super::VcpuContext;
    use crate::engine::{EngineError, Vcpu, VcpuExit};
    use crate::image::boot::{KernelEntry, Tsc};
    use crate::memory::Memory;
    use crate::vcpu::io_manager::tests::io_manager;
    use crate::vcpu::manager::VcpuManager;
    use crate::vcpu::stats::{ExitCounters, ProcessStatus};

    /// vCPU that has taken a bus lock before each exit.
    #[derive(Debug)]
    struct BusLocker;

    impl Vcpu for BusLocker {
        fn tsc(&self) -> Result<Tsc, EngineError> {
            Ok(Tsc::default())
        }

        fn set_entry(&mut self, _: &KernelEntry) -> Result<(), EngineError> {
            Ok(())
        }

        fn run(&mut self) -> Result<VcpuExit<'_>, EngineError> {
            Ok(VcpuExit::MmioWrite(0, &[0]))
        }

        fn failure(&mut self) -> String {
            String::new()
        }

        fn has_bus_lock(&mut self) -> bool {
            true
        }
    }

    #[test]
    fn bus_lock_before_another_exit_is_counted() {
        let (io, vm) = io_manager();
        let exits = Arc::new(ExitCounters::default());
        let endpoint = VcpuManager::new(1).unwrap().1.remove(0);
        let context = VcpuContext { vm, io: Arc::new(io), exits: Arc::clone(&exits), endpoint };
        assert!(context.run_once(&mut BusLocker) && context.run_once(&mut BusLocker));
        let memory = Memory::new("8M".parse().unwrap()).unwrap();
        let text = ProcessStatus::open(false).statistics(&exits, &memory, Instant::now()).text();
        assert!(text.contains(", 2 register writes, 2 bus locks"), "{text}");
    }
}
