//! Monotonic and wall-clock time, in nanoseconds, from the processor's counter ([`crate::arch::counter`]).
//!
//! A reading of the monotonic clock is a reading of the counter and a multiplication. The function that
//! converts ticks is replaced when the host has measured the frequency more precisely. The wall clock follows
//! the host's: at most once per second, a reading asks the host, and a small error is corrected gradually.
//! Its state is published in a [`SeqLock`], so that the fast paths take no lock. The coarse clock is a copy
//! of the last time, at most 4 ms old, for timestamps of files.
//!
//! If the counter's frequency must be measured, that happens on the first reading of a clock: a program that
//! reads no clock does not wait for it.

use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64};

use hermit_clock::{HostTime, NANOSECONDS, SeqLock, SlewedClock, TickScale, TimeFunction, Timekeeper};
use hermit_interface::boot_info::BootInfo;

use crate::arch::counter::{self, BootCounter};
use crate::interrupts::Masked;
use crate::once::Once;
use crate::ops;
use crate::sync::SpinLock;

/// Minimum interval, in nanoseconds, between readings of the host's wall clock.
const FOLLOW_INTERVAL: u64 = NANOSECONDS;

/// Maximum interval, in nanoseconds, between corrections of the counter's frequency.
const MAX_CORRECTION_INTERVAL: u64 = 3_600 * NANOSECONDS;

/// The counter at the start of the kernel, and the counter's facts in the boot information.
#[derive(Debug)]
struct BootTime {
    counter: u64,
    boot: BootCounter,
    /// Nanoseconds since 1970 (UTC) at [`BootCounter::at_wall_clock`]; 0 if unknown.
    wall_clock: u64,
}

static BOOT_TIME: Once<BootTime> = Once::new();
/// Scale of the counter, set at the first reading.
static SCALE: Once<TickScale> = Once::new();

/// The monotonic clock. It does not run before the first reading, and it never runs if the counters of the
/// CPUs are not synchronized.
static TIMEKEEPER: Timekeeper = Timekeeper::new();

/// The conversion function of a clock that does not run.
static STOPPED: TimeFunction = TimeFunction::new();

/// The function of [`TIMEKEEPER`] that is in use. It is a pointer for the fast path: an index would have to
/// be checked and scaled. It points to [`STOPPED`] or into [`TIMEKEEPER`].
static FUNCTION: AtomicPtr<TimeFunction> = AtomicPtr::new((&raw const STOPPED).cast_mut());

/// True if the counters of the CPUs may disagree.
static IS_UNSYNCHRONIZED: AtomicBool = AtomicBool::new(false);
/// The latest monotonic time that was returned; used if the counters do not agree.
static LATEST: AtomicU64 = AtomicU64::new(0);

/// State of the wall clock. Times are in nanoseconds of the monotonic clock.
#[derive(Debug)]
struct WallClock {
    clock: SlewedClock,
    /// Time of the next reading of the host's wall clock.
    due: u64,
    /// Time of the next correction of the counter's frequency.
    correction_due: u64,
}

/// Held while [`PUBLISHED`] or the frequency of [`TIMEKEEPER`] is changed. `None` before the first reading.
static WALL_CLOCK: SpinLock<Option<WallClock>> = SpinLock::new(None);

/// State of the fast path of [`wall_clock`]: [`WallClock::due`], until which the state is valid, and
/// [`SlewedClock::to_words`].
static PUBLISHED: SeqLock<4> = SeqLock::new([0; 4]);

/// State of the coarse clock: the result of [`coarse`] at the last reading of [`wall_clock`], and the seconds
/// and nanoseconds that this reading returned. All ones before the first reading.
static COARSE: SeqLock<3> = SeqLock::new([u64::MAX; 3]);

/// Held while [`COARSE`] is changed.
static COARSE_WRITER: SpinLock<()> = SpinLock::new(());

/// Starts the monotonic clock.
pub(crate) fn init(info: &BootInfo) {
    BOOT_TIME.call_once(|| BootTime {
        counter: counter::now(),
        boot: counter::from_boot(info),
        wall_clock: info.wall_clock,
    });
}

/// Prepares for other CPUs that read the clock.
pub(crate) fn prepare_for_smp() {
    let is_synchronized = counter::is_synchronized()
        || ops::time_source().host_clock().is_some_and(|host| host.is_synchronized);
    if !is_synchronized {
        IS_UNSYNCHRONIZED.store(true, Relaxed);
        let writer = COARSE_WRITER.lock();
        COARSE.write(|| [u64::MAX; 3]);
        drop(writer);
        TIMEKEEPER.stop();
        FUNCTION.store(pointer_to(&STOPPED), Release);
    }
}

fn boot_time() -> &'static BootTime {
    BOOT_TIME.get().expect("the clock starts when the kernel does")
}

#[cold]
fn first_reading() -> &'static TickScale {
    SCALE.call_once(|| {
        let by_host = || ops::time_source().host_clock().map(|host| host.frequency);
        let known = boot_time().boot.frequency.or_else(by_host).or_else(counter::frequency);
        TickScale::new(known.unwrap_or_else(|| ops::time_source().measure_counter()))
    })
}

fn scale() -> TickScale {
    *SCALE.get().unwrap_or_else(first_reading)
}

/// Nanoseconds since the kernel started. Never decreases, on whichever CPUs it is read.
#[inline(never)]
#[must_use]
pub fn monotonic() -> u64 {
    monotonic_inline()
}

/// Inlined [`monotonic`], for the system call that does nothing else. Each inlined copy takes 50 bytes.
#[inline]
#[must_use]
pub fn monotonic_inline() -> u64 {
    // The counter is read before the function that converts it is loaded: see `Timekeeper`.
    let counter = counter::now();
    // SAFETY: `FUNCTION` is private to this module, which stores no other values than its initial one, the
    // address of a static, and those of `pointer_to`, made of references to statics: they are aligned and
    // valid for ever. All access to the functions is by shared references: their fields are atomic, so a
    // function that is replaced meanwhile is no data race.
    let function = unsafe { &*FUNCTION.load(Acquire) };
    match function.nanoseconds(counter) {
        Some(now) => now,
        None => monotonic_slow(),
    }
}

/// A value of [`FUNCTION`].
const fn pointer_to(function: &'static TimeFunction) -> *mut TimeFunction {
    ptr::from_ref(function).cast_mut()
}

/// The slow path: the first reading, and every reading if the counters do not agree.
#[cold]
#[inline(never)]
fn monotonic_slow() -> u64 {
    // A preempted thread would keep other CPUs waiting for the first reading.
    let _masked = Masked::new();
    let (start, scale) = (boot_time().counter, scale());
    let now = scale.nanoseconds(counter::now().saturating_sub(start));
    if IS_UNSYNCHRONIZED.load(Relaxed) {
        return LATEST.fetch_max(now, Relaxed).max(now);
    }
    TIMEKEEPER.start(start, scale);
    // A CPU that arrives here late must not undo a correction of the frequency, so this stores the function
    // only if the clock is still stopped.
    let function = pointer_to(TIMEKEEPER.function());
    let _is_first = FUNCTION.compare_exchange(pointer_to(&STOPPED), function, Release, Relaxed).is_ok();
    now
}

/// Converts nanoseconds into ticks of the counter.
pub(crate) fn ticks(duration_ns: u64) -> u64 {
    scale().ticks(duration_ns)
}

/// A number that changes each 2^20 ticks of the counter, in less than 4 ms, and needs no conversion. If the
/// counters of CPUs differ, so does this number.
#[inline]
#[must_use]
pub fn coarse() -> u64 {
    counter::coarse()
}

/// A time since 1970 (UTC) in seconds and nanoseconds.
pub type SecondsNanoseconds = [u64; 2];

/// Returns the time of the first reading of [`wall_clock`] since [`coarse`] last changed. This time is at
/// most 4 ms old, and reading it takes a third of the instructions of `wall_clock`.
///
/// To be called without locks.
#[inline]
#[must_use]
pub fn coarse_wall_clock() -> SecondsNanoseconds {
    let tick = coarse();
    let shown = COARSE.read_some(|[at, seconds, nanoseconds]| {
        (at.load(Relaxed) == tick).then(|| [seconds.load(Relaxed), nanoseconds.load(Relaxed)])
    });
    shown.unwrap_or_else(|| coarse_wall_clock_slow(tick))
}

#[cold]
#[inline(never)]
fn coarse_wall_clock_slow(tick: u64) -> SecondsNanoseconds {
    publish_coarse(tick, wall_clock())
}

/// Reads [`wall_clock`], and makes every later [`coarse_wall_clock`], on any CPU, return at least this time.
///
/// To be called without locks.
#[must_use]
pub fn wall_clock_for_coarse() -> SecondsNanoseconds {
    let time = wall_clock();
    publish_coarse(coarse(), time)
}

/// Sets the coarse clock to a time, in nanoseconds, unless it shows a later one. Returns the time.
fn publish_coarse(tick: u64, time: u64) -> SecondsNanoseconds {
    let [seconds, nanoseconds] = [time / NANOSECONDS, time % NANOSECONDS];
    let writer = COARSE_WRITER.lock();
    // The lock excludes other writers, so the read succeeds.
    let shown = COARSE.read(|words: [u64; 3]| words).unwrap_or([u64::MAX; 3]);
    // Publishes nothing if the counters of CPUs differ: then `tick` does not tell how old the time is.
    if !IS_UNSYNCHRONIZED.load(Relaxed) && (shown == [u64::MAX; 3] || shown < [tick, seconds, nanoseconds]) {
        COARSE.write(|| [tick, seconds, nanoseconds]);
    }
    drop(writer);
    [seconds, nanoseconds]
}

/// Nanoseconds since 1970 (UTC). Follows the host's wall clock. Only this function reads the host's clock, at
/// most once per [`FOLLOW_INTERVAL`], so no timer wakes an idle machine for this. On a machine without a wall
/// clock, the time starts with 1970.
///
/// To be called without locks.
#[must_use]
pub fn wall_clock() -> u64 {
    // Reads the counter before the words: reading the counter waits for earlier loads, but not for the later
    // loads of the words, which overlap with it.
    let read = |[due, words @ ..]: &[AtomicU64; 4]| {
        let now = monotonic();
        let [first, second, third] = words;
        let words = [first.load(Relaxed), second.load(Relaxed), third.load(Relaxed)];
        (now < due.load(Relaxed)).then(|| SlewedClock::from_words(words).time(now))
    };
    PUBLISHED.read_some(read).unwrap_or_else(wall_clock_slow)
}

/// The slow path: reads the host's wall clock if the next reading is due. Other threads do not wait
/// meanwhile, except during the first reading.
#[cold]
#[inline(never)]
fn wall_clock_slow() -> u64 {
    let start = monotonic();
    let is_correction_due = {
        let mut wall_clock = WALL_CLOCK.lock();
        let wall_clock = wall_clock.get_or_insert_with(|| WallClock::first(start));
        if start < wall_clock.due {
            return wall_clock.publish();
        }
        wall_clock.due = start + FOLLOW_INTERVAL;
        start >= wall_clock.correction_due
    };
    let host = ops::time_source().wall_clock();
    let frequency = if is_correction_due { ops::time_source().measured_frequency() } else { None };
    let mut wall_clock = WALL_CLOCK.lock();
    let wall_clock = wall_clock.get_or_insert_with(|| WallClock::first(start));
    if is_correction_due {
        wall_clock.correct_frequency(start, frequency);
    }
    wall_clock.follow(start, host)
}

impl WallClock {
    /// The clock at the first reading, at the monotonic time `start`.
    fn first(start: u64) -> Self {
        // Uses the time of the boot information only shortly after the start, since the error of the
        // counter's frequency grows with time. Later, asks the host.
        let at_boot = if start < FOLLOW_INTERVAL { boot_wall_clock() } else { None };
        let time = at_boot.map(|zero| zero + start);
        let time = time.or_else(|| ops::time_source().wall_clock().map(HostTime::middle));
        let now = if at_boot.is_some() { start } else { monotonic() };
        let time = time.or_else(|| boot_wall_clock().map(|zero| zero + now)).unwrap_or(now);
        let due = now + FOLLOW_INTERVAL;
        Self { clock: SlewedClock::new(now, time), due, correction_due: due }
    }

    /// Follows a reading of the host's clock that began at the monotonic time `start`. Returns the time.
    fn follow(&mut self, start: u64, host: Option<HostTime>) -> u64 {
        PUBLISHED.write(|| {
            let now = monotonic();
            if let Some(host) = host {
                self.clock = self.clock.following(now, host.read_within(now - start));
            }
            self.words()
        });
        self.clock.time(monotonic())
    }

    /// Publishes the clock for the fast path. Returns the time.
    fn publish(&self) -> u64 {
        PUBLISHED.write(|| self.words());
        self.clock.time(monotonic())
    }

    /// Corrects the counter's frequency, in Hz, if the host has measured it. The measurement gets better with
    /// time, so the next correction is due when twice as much time has passed since the start.
    fn correct_frequency(&mut self, now: u64, frequency: Option<u64>) {
        self.correction_due = now + now.min(MAX_CORRECTION_INTERVAL);
        if let Some(frequency) = frequency {
            // An implausible frequency is ignored: the host may have stopped its time.
            if TIMEKEEPER.correct(counter::now(), frequency) {
                FUNCTION.store(pointer_to(TIMEKEEPER.function()), Release);
            }
        }
    }

    fn words(&self) -> [u64; 4] {
        let [since, offset, target] = self.clock.to_words();
        [self.due, since, offset, target]
    }
}

/// Nanoseconds since 1970 (UTC) at the monotonic clock's zero, according to the boot information; `None` if
/// unknown.
fn boot_wall_clock() -> Option<u64> {
    let start = boot_time();
    // The wall clock was read shortly before the kernel started.
    let passed = start.counter.saturating_sub(start.boot.at_wall_clock);
    (start.wall_clock != 0).then(|| start.wall_clock + scale().nanoseconds(passed))
}

/// Sets this CPU's timer. Its line is raised when the monotonic clock reaches `deadline_ns`, or earlier.
pub fn set_timer(masked: &Masked, deadline_ns: u64) {
    let _ = masked;
    ops::timer().set_timer(deadline_ns.saturating_sub(monotonic()));
}
