//! Operations on timers and clocks.

use hermit_clock::HostTime;

/// The timer of each CPU.
pub(crate) trait CpuTimer: Sync {
    /// Sets the timer of the calling CPU: its line is raised in `timeout_ns`, or earlier. Interrupts are
    /// masked.
    fn set_timer(&self, timeout_ns: u64);
}

/// The clock of a hypervisor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostClock {
    /// Ticks of the counter ([`crate::arch::counter`]) per second.
    pub(crate) frequency: u64,
    /// True if the counters of all CPUs agree.
    pub(crate) is_synchronized: bool,
}

/// Sources of the time of day and of the counter's frequency. The boot information may have both values too,
/// as they were at the start of the machine.
pub(crate) trait TimeSource: Sync {
    /// Facts about the counter that the hypervisor's clock states, if there is such a clock.
    fn host_clock(&self) -> Option<HostClock> {
        None
    }

    /// Measures and returns the frequency of the counter, in Hz. Takes a few milliseconds.
    fn measure_counter(&self) -> u64;

    /// The host's wall clock, or the real-time clock, now; `None` without one. Threads call it, without
    /// locks.
    fn wall_clock(&self) -> Option<HostTime>;

    /// Frequency of the counter in Hz as the host has measured it since the start of the machine. It is more
    /// precise than the frequency at the start. `None` if the host has not measured it. Threads call it,
    /// without locks.
    fn measured_frequency(&self) -> Option<u64> {
        None
    }
}
