//! vCPU threads: run a vCPU, and handle its exits.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::engine::{Vcpu, VcpuExit};
use crate::io_manager::IoManager;
use crate::stats::ExitCounters;
use crate::vcpu_manager::VcpuEndpoint;
use crate::vm_handle::{ShutDownOnPanic, ShutdownCause, VmHandle};

/// Pause of a vCPU after a bus lock, which holds up the memory accesses of all CPUs of the host: 1,000 bus locks per
/// second and vCPU remain, and each costs a host thousands of cycles at most.
const BUS_LOCK_PAUSE: Duration = Duration::from_millis(1);

/// What a vCPU thread uses besides its vCPU.
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
        let _guard = ShutDownOnPanic(&self.vm);
        if let Err(error) = vcpu.bind_to_thread() {
            self.vm.shut_down(ShutdownCause::Failed(error.to_string()));
            return;
        }
        let mut is_running = self.endpoint.wait_for_run(vcpu);
        while is_running && self.vm.shutdown_cause().is_none() {
            is_running = self.run_once(vcpu);
        }
    }

    /// Runs the guest until its next exit, and handles that. Returns false if the thread is to exit.
    fn run_once(&self, vcpu: &mut dyn Vcpu) -> bool {
        let Self { vm, io, exits, endpoint } = self;
        let exit = vcpu.run();
        if let Ok(exit) = &exit {
            exits.count(exit);
        }
        match exit {
            Ok(VcpuExit::PioWrite(port, bytes)) => io.pio_write(port, bytes),
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
