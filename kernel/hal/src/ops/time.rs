//! Operations on timers and clocks.

/// The timer of each CPU.
pub(crate) trait CpuTimer: Sync {
    /// Sets the timer of the calling CPU: its line is raised in `timeout_ns`, or earlier. Interrupts are masked.
    fn set_timer(&self, timeout_ns: u64);
}

/// The clock of a hypervisor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostClock {
    /// Ticks of the counter ([`crate::arch::counter`]) per second.
    pub(crate) frequency: u64,
    /// A value of the counter.
    pub(crate) counter: u64,
    /// Nanoseconds since 1970 (UTC) at that value.
    pub(crate) wall_clock_ns: u64,
    /// The counters of all CPUs agree.
    pub(crate) is_synchronized: bool,
}

/// Sources of the time of day and of the counter's frequency, asked in the order of these functions when the boot
/// information has neither.
pub(crate) trait TimeSource: Sync {
    /// The hypervisor's clock, if there is one.
    fn host_clock(&self) -> Option<HostClock> {
        None
    }

    /// Measures the frequency of the counter, in Hz. Takes some milliseconds.
    fn measure_counter(&self) -> u64;

    /// Seconds since 1970 (UTC) from the real-time clock; 0 without one.
    fn real_time_clock(&self) -> u64 {
        0
    }
}
