//! Identification of a thread, with which another thread of this process interrupts it.
#![expect(unsafe_code, reason = "neither the standard library nor rustix offers tgkill(2)")]

use std::io;
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::process::getpid;
use rustix::thread::gettid;

/// ID of a thread. There is no ID until the thread registers itself.
///
/// pthread_kill(3) is not used, because musl implements it with tkill(2), which a filter cannot limit to
/// threads of this process.
#[derive(Debug, Default)]
pub(crate) struct ThreadId(AtomicI32);

impl ThreadId {
    /// Sets the ID to that of the calling thread.
    pub(crate) fn register(&self) {
        self.0.store(gettid().as_raw_pid(), Ordering::Release);
    }

    /// Sends the thread a signal.
    ///
    /// # Errors
    ///
    /// `ESRCH`: no thread is registered, or it has exited.
    pub(crate) fn signal(&self, number: libc::c_int) -> io::Result<()> {
        let thread = match self.0.load(Ordering::Acquire) {
            0 => return Err(io::Error::from_raw_os_error(libc::ESRCH)),
            thread => thread,
        };
        // SAFETY: tgkill(2) takes integers and accesses no memory. The process is this one: even if the
        // thread has exited and its ID is another thread's by now, the handler that this process has for the
        // signal runs in one of its own threads.
        let result = unsafe { libc::syscall(libc::SYS_tgkill, getpid().as_raw_pid(), thread, number) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::ThreadId;
    use std::thread;

    #[test]
    fn signal_needs_a_registered_thread_that_runs() {
        let id = ThreadId::default();
        assert_eq!(id.signal(0).unwrap_err().raw_os_error(), Some(libc::ESRCH));
        thread::scope(|scope| {
            scope.spawn(|| {
                id.register();
                id.signal(0).unwrap();
            });
        });
        id.register();
        id.signal(0).unwrap();
    }
}
