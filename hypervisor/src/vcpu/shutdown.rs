//! Shutdown of a VM.

use std::io;
use std::sync::{Arc, OnceLock};
use std::thread;

use vmm_sys_util::eventfd::EventFd;

/// Why a VM has shut down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShutdownCause {
    /// The guest exited with this status.
    Exited(u8),
    /// The user, or a debugger, requested it.
    Requested,
    /// The guest reset the CPU: it took a fault that its kernel could not handle.
    Reset,
    /// The hypervisor cannot continue; the text says why.
    Failed(String),
    /// The guest tried to leave its sandbox; the text says how.
    Denied(String),
}

/// Handle with which any thread shuts the VM down, or waits for the shutdown.
#[derive(Debug)]
pub struct VmHandle {
    cause: OnceLock<ShutdownCause>,
    event: EventFd,
}

impl VmHandle {
    /// Creates the handle of a VM that is not shut down.
    ///
    /// # Errors
    ///
    /// The host cannot create an eventfd.
    pub fn new() -> io::Result<Self> {
        let event = EventFd::new(libc::EFD_NONBLOCK | libc::EFD_CLOEXEC)?;
        Ok(Self { cause: OnceLock::new(), event })
    }

    /// Shuts the VM down. Only the first call has an effect.
    pub fn shut_down(&self, cause: ShutdownCause) {
        let _: Result<(), ShutdownCause> = self.cause.set(cause);
        // Fails if the counter is at its maximum. Then the event is readable anyway.
        let _: io::Result<()> = self.event.write(1);
    }

    /// Returns the cause of the shutdown; `None` while the VM runs.
    pub fn shutdown_cause(&self) -> Option<&ShutdownCause> {
        self.cause.get()
    }

    /// Returns the event that is readable once the VM is shut down.
    pub const fn shutdown_event(&self) -> &EventFd {
        &self.event
    }
}

/// Returns the body of a thread of the VM. It calls `work`, and shuts the VM down if `work` panics, which is
/// a bug.
pub(crate) fn guarded(
    vm: &Arc<VmHandle>,
    work: impl FnOnce() + Send + 'static,
) -> impl FnOnce() + Send + 'static {
    let vm = Arc::clone(vm);
    move || {
        let _guard = ShutDownOnPanic(&vm);
        work();
    }
}

/// Shuts the VM down when it is dropped during a panic.
struct ShutDownOnPanic<'a>(&'a VmHandle);

impl Drop for ShutDownOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            let reason = "a thread of uhyve has panicked: please report this";
            self.0.shut_down(ShutdownCause::Failed(reason.to_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ShutdownCause, VmHandle, guarded};
    use std::sync::Arc;
    use std::thread;

    #[test]
    fn panic_of_a_thread_shuts_the_vm_down() {
        let vm = Arc::new(VmHandle::new().unwrap());
        thread::spawn(guarded(&vm, || {})).join().unwrap();
        assert_eq!(vm.shutdown_cause(), None);
        thread::spawn(guarded(&vm, || panic!("a bug"))).join().unwrap_err();
        assert!(matches!(vm.shutdown_cause(), Some(ShutdownCause::Failed(_))));
    }
}
