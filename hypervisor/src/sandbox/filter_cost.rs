//! Cost of a system-call filter on this host. It is measured in a thread of its own, because a filter applies
//! to one thread.

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::gettid;

use super::{Role, Rules, SandboxError, filters};

/// Number of measurements. Only the shortest one counts, because the thread may be interrupted during the
/// others.
const ROUNDS: u32 = 20;

/// Number of system calls of a measurement.
const CALLS: u32 = 500;

/// Time of a short system call without and with a filter.
#[derive(Clone, Copy, Debug)]
struct FilterCost {
    unfiltered: Duration,
    filtered: Duration,
}

impl FilterCost {
    /// Measures `gettid` before and after the calling thread gets the filter of a vCPU.
    fn measure() -> Result<Self, SandboxError> {
        let unfiltered = shortest_call();
        filters::enter(Role::Vcpu, &Rules { process: true, ..Rules::default() })?;
        Ok(Self { unfiltered, filtered: shortest_call() })
    }

    fn describe(self) -> String {
        let added = self.filtered.saturating_sub(self.unfiltered).as_nanos();
        let whole = self.unfiltered.as_nanos();
        format!("adds {added} ns to a system call that takes {whole} ns without it (measured now)")
    }
}

/// Returns the mean time of a system call in the shortest measurement.
fn shortest_call() -> Duration {
    let measure = || {
        let start = Instant::now();
        for _ in 0..CALLS {
            black_box(gettid());
        }
        start.elapsed() / CALLS
    };
    (0..ROUNDS).map(|_| measure()).min().unwrap_or_default()
}

/// Measures the cost of the filters of uhyve's threads, and describes it. This takes a few milliseconds.
pub(crate) fn report() -> String {
    // Fails at the limit of threads (RLIMIT_NPROC).
    let thread = match thread::Builder::new().spawn(FilterCost::measure) {
        Ok(thread) => thread,
        Err(error) => return format!("not possible: cannot start a thread: {error}"),
    };
    match thread.join() {
        Ok(Ok(cost)) => cost.describe(),
        Ok(Err(error)) => format!("not possible: {error}"),
        Err(_) => "not possible: the thread that measures it has panicked".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{FilterCost, report};
    use std::time::Duration;

    #[test]
    fn cost_is_the_difference_and_never_negative() {
        let [short, long] = [90, 150].map(Duration::from_nanos);
        let text = FilterCost { unfiltered: short, filtered: long }.describe();
        assert!(text.starts_with("adds 60 ns to a system call that takes 90 ns"), "{text}");
        let text = FilterCost { unfiltered: long, filtered: short }.describe();
        assert!(text.starts_with("adds 0 ns"), "{text}");
    }

    /// The filter of the measuring thread does not end the process, and does not apply to the calling thread,
    /// which can still read a file.
    #[test]
    fn only_the_measuring_thread_is_filtered() {
        let text = report();
        assert!(text.starts_with("adds ") || text.starts_with("not possible: "), "{text}");
        assert!(std::fs::read("/proc/self/status").is_ok());
    }
}
