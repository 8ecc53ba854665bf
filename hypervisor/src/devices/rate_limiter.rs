//! Limits of bytes and operations per second, by token buckets.
//!
//! A token bucket fills at the rate of its limit, up to the burst, and each operation takes tokens out. A
//! device calls [`RateLimiter::admits`] before each operation, and reports the operation's size with
//! [`RateLimiter::charge`] afterwards. If the next operation is not admitted, the device leaves the queue,
//! and its thread sleeps until [`RateLimiter::timer`] expires.

use std::fmt;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use hermit_options::rate::{Rate, RateLimits};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use super::virtio::{HostEvent, Interest};

/// Units of the balance in one token.
const NANO: i128 = 1_000_000_000;

/// Token bucket. It is full at first, and receives tokens at a constant rate up to its capacity, the burst.
///
/// An operation is admitted while the bucket has at least one token. The size of an operation is known only
/// afterwards, so an operation may take more tokens than the bucket has. Then the next operation waits until
/// the debt is repaid. So an operation of any size is possible. Within any time `t`, all operations except
/// the last one take at most `burst + rate * t` tokens.
#[derive(Debug)]
struct TokenBucket {
    rate: Rate,
    /// Tokens in the bucket, in billionths of a token. Negative after an operation that took more tokens than
    /// there were.
    balance: i128,
    /// Time up to which `balance` includes the received tokens.
    filled: Duration,
}

impl TokenBucket {
    fn new(rate: Rate, now: Duration) -> Self {
        Self { rate, balance: capacity(rate), filled: now }
    }

    /// Returns the time until an operation is admitted; zero if an operation is admitted `now`.
    fn delay(&mut self, now: Duration) -> Duration {
        let per_second = i128::from(self.rate.per_second.get());
        let elapsed = now.saturating_sub(self.filled);
        let income = i128::try_from(elapsed.as_nanos()).unwrap_or(i128::MAX).saturating_mul(per_second);
        self.balance = self.balance.saturating_add(income).min(capacity(self.rate));
        self.filled = self.filled.max(now);
        let missing = (NANO - self.balance).max(0).cast_unsigned();
        let nanoseconds = missing.div_ceil(per_second.cast_unsigned());
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }

    /// Takes the tokens of an admitted operation.
    fn take(&mut self, tokens: u64) {
        self.balance = self.balance.saturating_sub(i128::from(tokens) * NANO);
    }
}

fn capacity(rate: Rate) -> i128 {
    i128::from(rate.burst.get()) * NANO
}

/// Clock that returns the time since an arbitrary start. Tests simulate it.
type Clock = Box<dyn FnMut() -> Duration + Send>;

/// Rate limiter of a queue. The default limiter has no limits.
#[derive(Debug, Default)]
pub struct RateLimiter(Option<Box<Limits>>);

struct Limits {
    bytes: Option<TokenBucket>,
    operations: Option<TokenBucket>,
    clock: Clock,
    /// Timer that expires when an operation is admitted again (timerfd_create(2)).
    timer: OwnedFd,
    /// True if the last operation was not admitted.
    is_waiting: bool,
}

impl fmt::Debug for Limits {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bytes, operations, is_waiting, .. } = self;
        let mut out = out.debug_struct("Limits");
        out.field("bytes", bytes).field("operations", operations).field("is_waiting", is_waiting);
        out.finish_non_exhaustive()
    }
}

impl RateLimiter {
    /// Creates a limiter with these limits.
    ///
    /// # Errors
    ///
    /// The host has no more file descriptors or memory for a timer.
    pub fn new(limits: RateLimits) -> rustix::io::Result<Self> {
        let start = Instant::now();
        Self::with_clock(limits, Box::new(move || start.elapsed()))
    }

    pub(super) fn with_clock(limits: RateLimits, mut clock: Clock) -> rustix::io::Result<Self> {
        if limits.is_unlimited() {
            return Ok(Self::default());
        }
        let now = clock();
        let bucket = |rate: Option<Rate>| rate.map(|rate| TokenBucket::new(rate, now));
        let (bytes, operations) = (bucket(limits.bytes), bucket(limits.operations));
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Self(Some(Box::new(Limits { bytes, operations, clock, timer, is_waiting: false }))))
    }

    /// Returns true if the next operation is admitted now. Otherwise [`Self::timer`] expires when it is
    /// admitted.
    pub fn admits(&mut self) -> bool {
        self.0.as_mut().is_none_or(|limits| limits.admits())
    }

    /// Takes the tokens of an admitted operation that moved `bytes`.
    pub fn charge(&mut self, bytes: u64) {
        let Some(limits) = &mut self.0 else { return };
        limits.bytes.iter_mut().for_each(|bucket| bucket.take(bytes));
        limits.operations.iter_mut().for_each(|bucket| bucket.take(1));
    }

    /// Returns the event after which the next operation is admitted; `None` if the last call of
    /// [`Self::admits`] returned true.
    #[must_use]
    pub fn timer(&self) -> Option<HostEvent> {
        let limits = self.0.as_ref().filter(|limits| limits.is_waiting)?;
        Some(HostEvent { fd: limits.timer.as_raw_fd(), interest: Interest::Readable })
    }

    /// Removes the limits. Called when the guest has ended, so that its remaining output is written at once.
    pub fn lift(&mut self) {
        self.0 = None;
    }
}

impl Limits {
    fn admits(&mut self) -> bool {
        let now = (self.clock)();
        let buckets = self.bytes.iter_mut().chain(&mut self.operations);
        let delay = buckets.map(|bucket| bucket.delay(now)).max().unwrap_or_default();
        // If the timer cannot be set, the operation is admitted, because otherwise the queue would be blocked
        // forever.
        self.is_waiting = !delay.is_zero() && self.set_timer(delay).is_ok();
        !self.is_waiting
    }

    /// Sets the timer. Its descriptor becomes readable when it expires.
    fn set_timer(&self, delay: Duration) -> rustix::io::Result<()> {
        let it_value = Timespec::try_from(delay).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 });
        let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
        let spec = Itimerspec { it_interval, it_value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &spec).map(drop)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::{RateLimiter, TokenBucket};
    use hermit_options::rate::{Rate, RateLimits};
    use proptest::collection::vec;
    use proptest::prelude::*;
    use rustix::event::{PollFd, PollFlags, poll};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use std::time::Duration;

    /// Returns a limiter with a simulated clock, and the clock's time in nanoseconds, which the test sets.
    pub(in super::super) fn simulated(bytes: &str, operations: &str) -> (RateLimiter, Arc<AtomicU64>) {
        let mut limits = RateLimits::default();
        if !bytes.is_empty() {
            limits.set_bytes(bytes).unwrap();
        }
        if !operations.is_empty() {
            limits.set_operations(operations).unwrap();
        }
        let nanoseconds = Arc::new(AtomicU64::new(0));
        let time = Arc::clone(&nanoseconds);
        let clock = Box::new(move || Duration::from_nanos(time.load(Relaxed)));
        (RateLimiter::with_clock(limits, clock).unwrap(), nanoseconds)
    }

    #[test]
    fn limiter_without_limits_admits_everything() {
        let mut limiter = RateLimiter::new(RateLimits::default()).unwrap();
        for _ in 0..1000 {
            assert!(limiter.admits());
            limiter.charge(u64::MAX);
        }
        assert_eq!(limiter.timer(), None);
    }

    #[test]
    fn operations_are_admitted_at_the_rate_after_the_burst() {
        let (mut limiter, time) = simulated("", "10/3");
        for expected in [true, true, true, false, false] {
            assert_eq!(limiter.admits(), expected);
            if expected {
                limiter.charge(1 << 40);
            }
            assert_eq!(limiter.timer().is_none(), expected);
        }
        // The bucket receives one token every tenth of a second.
        time.store(99_999_999, Relaxed);
        assert!(!limiter.admits());
        time.store(100_000_000, Relaxed);
        assert!(limiter.admits() && limiter.timer().is_none());
    }

    #[test]
    fn operation_larger_than_the_burst_passes_and_is_paid_for_afterwards() {
        let (mut limiter, time) = simulated("100/50", "1000");
        assert!(limiter.admits());
        limiter.charge(250);
        // The bucket must receive 201 tokens: 200 of debt, and one for the next operation.
        for (milliseconds, is_admitted) in [(0, false), (2009, false), (2010, true)] {
            time.store(milliseconds * 1_000_000, Relaxed);
            assert_eq!(limiter.admits(), is_admitted, "{milliseconds}");
        }
        // An hour later the bucket has no more than its burst.
        time.store(3_600_000_000_000, Relaxed);
        assert!(limiter.admits());
        limiter.charge(50);
        assert!(!limiter.admits());
        limiter.lift();
        assert!(limiter.admits() && limiter.timer().is_none());
    }

    /// The clock stands still, so that only the timer can end the wait.
    #[test]
    fn timer_expires_when_an_operation_is_admitted() {
        let (mut limiter, _time) = simulated("1000000000/1", "");
        limiter.charge(1);
        assert!(!limiter.admits());
        let timer = &limiter.0.as_ref().unwrap().timer;
        assert_eq!(poll(&mut [PollFd::new(timer, PollFlags::IN)], None), Ok(1));
    }

    fn rate() -> impl Strategy<Value = Rate> {
        let number =
            || prop_oneof![1..10_u64, 1..1_000_000_u64, any::<u64>().prop_map(|number| number.max(1))];
        (number(), number()).prop_map(|(rate, burst)| format!("{rate}/{burst}").parse().unwrap())
    }

    proptest! {
        #[test]
        fn tokens_never_exceed_burst_and_rate(
            rate in rate(),
            steps in vec((0_u64..3_000_000_000, 1_u64..1 << 40), 1..50),
        ) {
            let mut bucket = TokenBucket::new(rate, Duration::ZERO);
            let (mut now, mut taken, mut last) = (Duration::ZERO, 0_u128, 0);
            for (pause, tokens) in steps {
                now += Duration::from_nanos(pause);
                if bucket.delay(now).is_zero() {
                    bucket.take(tokens);
                    (taken, last) = (taken + u128::from(tokens), tokens);
                }
            }
            let income = now.as_nanos() * u128::from(rate.per_second.get()) / 1_000_000_000;
            prop_assert!(taken <= u128::from(rate.burst.get()) + income + u128::from(last));
        }

        #[test]
        fn operation_is_admitted_after_the_delay_and_not_before(rate in rate(), tokens: u32, start in 0_u64..1 << 40) {
            let mut bucket = TokenBucket::new(rate, Duration::ZERO);
            let now = Duration::from_nanos(start);
            prop_assert_eq!(bucket.delay(now), Duration::ZERO);
            bucket.take(tokens.into());
            let delay = bucket.delay(now);
            if let Some(before) = delay.checked_sub(Duration::from_nanos(1)) {
                prop_assert_ne!(bucket.delay(now + before), Duration::ZERO);
            }
            prop_assert_eq!(bucket.delay(now + delay), Duration::ZERO);
        }
    }
}
