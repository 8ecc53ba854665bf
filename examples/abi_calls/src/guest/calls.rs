//! The kernel's functions as safe ones, with a `Result` instead of a negative number.

#![expect(unsafe_code, reason = "the kernel's functions are foreign")]

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32};
use std::time::Duration;

use hermit_abi::{CLOCK_REALTIME, Priority, Tid, clockid_t, pollfd, sem_t, timespec};

/// What a call returns, or the positive error number.
pub(crate) type Answer<T = i32> = Result<T, i32>;

/// An answer from what a call returned.
pub(crate) fn answer(number: i32) -> Answer {
    if number < 0 { Err(-number) } else { Ok(number) }
}

/// An answer from the number of bytes that a call returned.
fn count(number: isize) -> Answer<usize> {
    usize::try_from(number).map_err(|_| i32::try_from(-number).expect("this is no error number"))
}

/// A span of time, or a moment by what has passed since the clock's start.
pub(crate) fn timespec(time: Duration) -> timespec {
    let seconds = i64::try_from(time.as_secs()).expect("this is too long");
    timespec { tv_sec: seconds, tv_nsec: time.subsec_nanos().cast_signed() }
}

/// Reads a clock.
pub(crate) fn clock(clock: clockid_t) -> Duration {
    let mut now = timespec::default();
    // SAFETY: there is place for the result.
    let result = unsafe { hermit_abi::clock_gettime(clock, &raw mut now) };
    assert_eq!(answer(result), Ok(0), "clock {clock} cannot be read");
    let seconds = u64::try_from(now.tv_sec).expect("the clock is before its start");
    Duration::new(seconds, u32::try_from(now.tv_nsec).expect("the clock has negative nanoseconds"))
}

/// The wall clock.
pub(crate) fn wall_clock() -> Duration {
    clock(CLOCK_REALTIME)
}

pub(crate) fn errno() -> i32 {
    // SAFETY: nothing is passed.
    unsafe { hermit_abi::get_errno() }
}

pub(crate) fn errno_by_other_name() -> i32 {
    // SAFETY: nothing is passed.
    unsafe { hermit_abi::errno() }
}

pub(crate) fn eventfd(value: u64, flags: i16) -> Answer {
    // SAFETY: only numbers are passed.
    answer(unsafe { hermit_abi::eventfd(value, flags) })
}

pub(crate) fn close(fd: i32) -> Answer {
    // SAFETY: only numbers are passed; std does not know the descriptors of this program.
    answer(unsafe { hermit_abi::close(fd) })
}

pub(crate) fn dup(fd: i32) -> Answer {
    // SAFETY: only numbers are passed.
    answer(unsafe { hermit_abi::dup(fd) })
}

pub(crate) fn read(fd: i32, buffer: &mut [u8]) -> Answer<usize> {
    // SAFETY: the buffer is as long as it is said to be.
    count(unsafe { hermit_abi::read(fd, buffer.as_mut_ptr(), buffer.len()) })
}

pub(crate) fn write(fd: i32, bytes: &[u8]) -> Answer<usize> {
    // SAFETY: the buffer is as long as it is said to be.
    count(unsafe { hermit_abi::write(fd, bytes.as_ptr(), bytes.len()) })
}

pub(crate) fn fcntl(fd: i32, command: i32, argument: i32) -> Answer {
    // SAFETY: only numbers are passed.
    answer(unsafe { hermit_abi::fcntl(fd, command, argument) })
}

/// For commands that take a number.
pub(crate) fn ioctl(fd: i32, command: i32, mut argument: i32) -> Answer {
    // SAFETY: the argument lives until the call returns.
    answer(unsafe { hermit_abi::ioctl(fd, command, (&raw mut argument).cast()) })
}

pub(crate) fn poll(entries: &mut [pollfd], milliseconds: i32) -> Answer {
    // SAFETY: there are as many entries.
    answer(unsafe { hermit_abi::poll(entries.as_mut_ptr(), entries.len(), milliseconds) })
}

pub(crate) fn futex_wait(
    futex: Option<&AtomicU32>,
    expected: u32,
    timeout: Option<timespec>,
    flags: u32,
) -> Answer {
    let address = futex.map_or(ptr::null_mut(), AtomicU32::as_ptr);
    let timeout = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: both are null or live until the call returns.
    answer(unsafe { hermit_abi::futex_wait(address, expected, timeout, flags) })
}

pub(crate) fn futex_wake(futex: Option<&AtomicU32>, count: i32) -> Answer {
    // SAFETY: the address is only compared.
    answer(unsafe { hermit_abi::futex_wake(futex.map_or(ptr::null_mut(), AtomicU32::as_ptr), count) })
}

/// Memory for a semaphore.
#[derive(Debug, Default)]
pub(crate) struct Semaphore(AtomicPtr<core::ffi::c_void>);

impl Semaphore {
    /// A semaphore that counts from `value`.
    pub(crate) fn new(value: u32) -> Self {
        let semaphore = Self::default();
        assert_eq!(semaphore.init(0, value), Ok(0), "there is no semaphore of {value}");
        semaphore
    }

    fn place(&self) -> *mut sem_t {
        self.0.as_ptr().cast()
    }

    pub(crate) fn init(&self, shared: i32, value: u32) -> Answer {
        // SAFETY: the place is large enough, and the kernel accesses it atomically.
        answer(unsafe { hermit_abi::sem_init(self.place(), shared, value) })
    }

    pub(crate) fn destroy(self) -> Answer {
        // SAFETY: nobody can use it any more.
        answer(unsafe { hermit_abi::sem_destroy(self.place()) })
    }

    pub(crate) fn post(&self) -> Answer {
        // SAFETY: it is a semaphore: one that was not set up is one of count 0.
        answer(unsafe { hermit_abi::sem_post(self.place()) })
    }

    pub(crate) fn try_wait(&self) -> Answer {
        // SAFETY: as above.
        answer(unsafe { hermit_abi::sem_trywait(self.place()) })
    }

    pub(crate) fn wait(&self, until: Option<timespec>) -> Answer {
        let until = until.as_ref().map_or(ptr::null(), ptr::from_ref);
        // SAFETY: as above; the moment is null or lives until the call returns.
        answer(unsafe { hermit_abi::sem_timedwait(self.place(), until) })
    }
}

pub(crate) fn nanosleep(time: timespec) -> Answer {
    // SAFETY: the time lives until the call returns.
    answer(unsafe { hermit_abi::nanosleep(&raw const time) })
}

pub(crate) fn usleep(microseconds: u64) {
    // SAFETY: only a number is passed.
    unsafe { hermit_abi::usleep(microseconds) }
}

pub(crate) fn init_queue(id: usize) -> Answer {
    // SAFETY: only a number is passed.
    answer(unsafe { hermit_abi::init_queue(id) })
}

pub(crate) fn destroy_queue(id: usize) -> Answer {
    // SAFETY: only a number is passed.
    answer(unsafe { hermit_abi::destroy_queue(id) })
}

pub(crate) fn add_queue(id: usize, nanoseconds: i64) -> Answer {
    // SAFETY: only numbers are passed.
    answer(unsafe { hermit_abi::add_queue(id, nanoseconds) })
}

pub(crate) fn wait_queue(id: usize) -> Answer {
    // SAFETY: only a number is passed.
    answer(unsafe { hermit_abi::wait(id) })
}

pub(crate) fn notify_queue(id: usize, count: i32) -> Answer {
    // SAFETY: only numbers are passed.
    answer(unsafe { hermit_abi::notify(id, count) })
}

/// The two steps of waiting: says so, and lets others run.
pub(crate) fn block(milliseconds: Option<u64>) {
    match milliseconds {
        // SAFETY: nothing is passed.
        None => unsafe { hermit_abi::block_current_task() },
        // SAFETY: only a number is passed.
        Some(milliseconds) => unsafe { hermit_abi::block_current_task_with_timeout(milliseconds) },
    }
}

pub(crate) fn yield_now() {
    // SAFETY: nothing is passed.
    unsafe { hermit_abi::yield_now() }
}

pub(crate) fn wake(thread: Tid) {
    // SAFETY: only a number is passed.
    unsafe { hermit_abi::wakeup_task(thread) }
}

pub(crate) fn join(thread: Tid) -> Answer {
    // SAFETY: only a number is passed.
    answer(unsafe { hermit_abi::join(thread) })
}

pub(crate) fn priority() -> u8 {
    // SAFETY: the kernel is in this image.
    unsafe { hermit_abi::get_priority() }.into()
}

pub(crate) fn set_priority(thread: Tid, priority: u8) {
    // SAFETY: the kernel is in this image.
    unsafe { hermit_abi::set_priority(thread, Priority::from(priority)) }
}

/// How many CPUs there are.
pub(crate) fn cpus() -> usize {
    // SAFETY: nothing is passed.
    unsafe { hermit_abi::available_parallelism() }
}

pub(crate) fn page_size() -> i32 {
    // SAFETY: nothing is passed.
    unsafe { hermit_abi::getpagesize() }
}
