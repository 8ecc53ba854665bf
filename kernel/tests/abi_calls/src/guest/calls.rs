//! Safe wrappers of the kernel's functions, with a `Result` instead of a negative number.
//!
//! The kernel's functions follow the C ABI of `hermit-abi`: a negative result is a negated error number, and
//! data goes through pointers. Tests use these wrappers, so that each `unsafe` call and its argument is
//! written once.

#![expect(unsafe_code, reason = "the kernel's functions are foreign")]

use std::ffi::CStr;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32};
use std::time::Duration;

use hermit_abi::{CLOCK_REALTIME, Priority, Tid, addrinfo, clockid_t, pollfd, sem_t, timespec};

/// Return value of a call, or its positive errno.
pub(crate) type ErrnoResult<T = i32> = Result<T, i32>;

/// Converts a return value.
pub(crate) fn call_result(number: i32) -> ErrnoResult {
    if number < 0 { Err(-number) } else { Ok(number) }
}

/// Converts a return value that is a number of bytes.
fn count(number: isize) -> ErrnoResult<usize> {
    usize::try_from(number).map_err(|_| i32::try_from(-number).expect("this is no error number"))
}

/// Converts a duration, or the time since a clock's epoch.
pub(crate) fn timespec(time: Duration) -> timespec {
    let seconds = i64::try_from(time.as_secs()).expect("this is too long");
    timespec { tv_sec: seconds, tv_nsec: time.subsec_nanos().cast_signed() }
}

/// Reads a clock.
pub(crate) fn clock(clock: clockid_t) -> Duration {
    let mut now = timespec::default();
    // SAFETY: `now` is writable.
    let result = unsafe { hermit_abi::clock_gettime(clock, &raw mut now) };
    assert_eq!(call_result(result), Ok(0), "clock {clock} cannot be read");
    let seconds = u64::try_from(now.tv_sec).expect("the clock is before its start");
    Duration::new(seconds, u32::try_from(now.tv_nsec).expect("the clock has negative nanoseconds"))
}

/// The wall clock.
pub(crate) fn wall_clock() -> Duration {
    clock(CLOCK_REALTIME)
}

pub(crate) fn errno() -> i32 {
    // SAFETY: the function is linked into the image and takes no arguments.
    unsafe { hermit_abi::get_errno() }
}

pub(crate) fn errno_by_other_name() -> i32 {
    // SAFETY: the function is linked into the image and takes no arguments.
    unsafe { hermit_abi::errno() }
}

/// A random number; `None` stands for a null pointer.
pub(crate) fn secure_rand32(value: Option<&mut u32>) -> i32 {
    // SAFETY: the pointer is null, or that of an exclusive reference.
    unsafe { hermit_abi::secure_rand32(value.map_or(ptr::null_mut(), ptr::from_mut)) }
}

/// A random number; `None` stands for a null pointer.
pub(crate) fn secure_rand64(value: Option<&mut u64>) -> i32 {
    // SAFETY: the pointer is null, or that of an exclusive reference.
    unsafe { hermit_abi::secure_rand64(value.map_or(ptr::null_mut(), ptr::from_mut)) }
}

pub(crate) fn eventfd(value: u64, flags: i16) -> ErrnoResult {
    // SAFETY: only integers are passed, which the kernel validates.
    call_result(unsafe { hermit_abi::eventfd(value, flags) })
}

pub(crate) fn close(fd: i32) -> ErrnoResult {
    // SAFETY: only integers are passed; the descriptors here are not owned by std.
    call_result(unsafe { hermit_abi::close(fd) })
}

pub(crate) fn open(path: &CStr, flags: i32) -> ErrnoResult {
    // SAFETY: the path ends with a zero byte.
    call_result(unsafe { hermit_abi::open(path.as_ptr(), flags, 0) })
}

/// The result of `getaddrinfo`, which is freed when it is dropped.
#[derive(Debug)]
pub(crate) struct AddressList(*mut addrinfo);

impl AddressList {
    /// Resolves a name; the error is an `EAI_` number.
    pub(crate) fn resolve(name: &CStr) -> Result<Self, i32> {
        let mut list = ptr::null_mut();
        // SAFETY: the name ends with a zero byte, service and hints are null, and `list` is writable.
        let error =
            unsafe { hermit_abi::getaddrinfo(name.as_ptr(), ptr::null(), ptr::null(), &raw mut list) };
        if error == 0 { Ok(Self(list)) } else { Err(error) }
    }
}

impl Drop for AddressList {
    fn drop(&mut self) {
        // SAFETY: the list is one of `getaddrinfo`, which only this value has.
        unsafe { hermit_abi::freeaddrinfo(self.0) };
    }
}

pub(crate) fn dup(fd: i32) -> ErrnoResult {
    // SAFETY: only integers are passed, which the kernel validates.
    call_result(unsafe { hermit_abi::dup(fd) })
}

pub(crate) fn read(fd: i32, buffer: &mut [u8]) -> ErrnoResult<usize> {
    // SAFETY: pointer and length are those of a slice that lives until the call returns.
    count(unsafe { hermit_abi::read(fd, buffer.as_mut_ptr(), buffer.len()) })
}

/// Entries of a directory, as bytes.
pub(crate) fn getdents(fd: i32, buffer: &mut [u8]) -> ErrnoResult<usize> {
    // SAFETY: pointer and length are those of a slice that lives until the call returns.
    count(unsafe { hermit_abi::getdents(fd, buffer.as_mut_ptr(), buffer.len()) })
}

pub(crate) fn write(fd: i32, bytes: &[u8]) -> ErrnoResult<usize> {
    // SAFETY: pointer and length are those of a slice that lives until the call returns.
    count(unsafe { hermit_abi::write(fd, bytes.as_ptr(), bytes.len()) })
}

pub(crate) fn fcntl(fd: i32, command: i32, argument: i32) -> ErrnoResult {
    // SAFETY: only integers are passed, which the kernel validates.
    call_result(unsafe { hermit_abi::fcntl(fd, command, argument) })
}

/// Calls `ioctl` for a command with an integer argument.
pub(crate) fn ioctl(fd: i32, command: i32, mut argument: i32) -> ErrnoResult {
    // SAFETY: the argument lives until the call returns.
    call_result(unsafe { hermit_abi::ioctl(fd, command, (&raw mut argument).cast()) })
}

pub(crate) fn poll(entries: &mut [pollfd], milliseconds: i32) -> ErrnoResult {
    // SAFETY: pointer and length are those of a slice that lives until the call returns.
    call_result(unsafe { hermit_abi::poll(entries.as_mut_ptr(), entries.len(), milliseconds) })
}

pub(crate) fn futex_wait(
    futex: Option<&AtomicU32>,
    expected: u32,
    timeout: Option<timespec>,
    flags: u32,
) -> ErrnoResult {
    let address = futex.map_or(ptr::null_mut(), AtomicU32::as_ptr);
    let timeout = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: both are null or live until the call returns.
    call_result(unsafe { hermit_abi::futex_wait(address, expected, timeout, flags) })
}

pub(crate) fn futex_wake(futex: Option<&AtomicU32>, count: i32) -> ErrnoResult {
    // SAFETY: the address is only compared.
    call_result(unsafe { hermit_abi::futex_wake(futex.map_or(ptr::null_mut(), AtomicU32::as_ptr), count) })
}

/// Memory of a semaphore.
#[derive(Debug, Default)]
pub(crate) struct Semaphore(AtomicPtr<core::ffi::c_void>);

impl Semaphore {
    /// Creates a semaphore with the count `value`.
    pub(crate) fn new(value: u32) -> Self {
        let semaphore = Self::default();
        assert_eq!(semaphore.init(0, value), Ok(0), "there is no semaphore of {value}");
        semaphore
    }

    fn pointer(&self) -> *mut sem_t {
        self.0.as_ptr().cast()
    }

    pub(crate) fn init(&self, shared: i32, value: u32) -> ErrnoResult {
        // SAFETY: `sem_t` is one pointer, which the kernel accesses atomically, like the `AtomicPtr` here.
        call_result(unsafe { hermit_abi::sem_init(self.pointer(), shared, value) })
    }

    pub(crate) fn destroy(self) -> ErrnoResult {
        // SAFETY: `self` is consumed: no other call uses the semaphore.
        call_result(unsafe { hermit_abi::sem_destroy(self.pointer()) })
    }

    pub(crate) fn post(&self) -> ErrnoResult {
        // SAFETY: the pointer is valid for `&self`; zeroed memory is a semaphore with count 0.
        call_result(unsafe { hermit_abi::sem_post(self.pointer()) })
    }

    pub(crate) fn try_wait(&self) -> ErrnoResult {
        // SAFETY: the pointer is valid for `&self`; zeroed memory is a semaphore with count 0.
        call_result(unsafe { hermit_abi::sem_trywait(self.pointer()) })
    }

    pub(crate) fn wait(&self, deadline: Option<timespec>) -> ErrnoResult {
        let deadline = deadline.as_ref().map_or(ptr::null(), ptr::from_ref);
        // SAFETY: the semaphore's pointer is valid for `&self`; the deadline is null or lives until the call
        // returns.
        call_result(unsafe { hermit_abi::sem_timedwait(self.pointer(), deadline) })
    }
}

pub(crate) fn nanosleep(time: timespec) -> ErrnoResult {
    // SAFETY: the time lives until the call returns.
    call_result(unsafe { hermit_abi::nanosleep(&raw const time) })
}

pub(crate) fn usleep(microseconds: u64) {
    // SAFETY: only an integer is passed, which the kernel validates.
    unsafe { hermit_abi::usleep(microseconds) }
}

pub(crate) fn init_queue(id: usize) -> ErrnoResult {
    // SAFETY: only an integer is passed, which the kernel validates.
    call_result(unsafe { hermit_abi::init_queue(id) })
}

pub(crate) fn destroy_queue(id: usize) -> ErrnoResult {
    // SAFETY: only an integer is passed, which the kernel validates.
    call_result(unsafe { hermit_abi::destroy_queue(id) })
}

pub(crate) fn add_queue(id: usize, nanoseconds: i64) -> ErrnoResult {
    // SAFETY: only integers are passed, which the kernel validates.
    call_result(unsafe { hermit_abi::add_queue(id, nanoseconds) })
}

pub(crate) fn wait_queue(id: usize) -> ErrnoResult {
    // SAFETY: only an integer is passed, which the kernel validates.
    call_result(unsafe { hermit_abi::wait(id) })
}

pub(crate) fn notify_queue(id: usize, count: i32) -> ErrnoResult {
    // SAFETY: only integers are passed, which the kernel validates.
    call_result(unsafe { hermit_abi::notify(id, count) })
}

/// Marks the thread as blocked; it blocks with the next `yield_now`.
pub(crate) fn block(milliseconds: Option<u64>) {
    match milliseconds {
        // SAFETY: the function is linked into the image and takes no arguments.
        None => unsafe { hermit_abi::block_current_task() },
        // SAFETY: only an integer is passed, which the kernel validates.
        Some(milliseconds) => unsafe { hermit_abi::block_current_task_with_timeout(milliseconds) },
    }
}

pub(crate) fn yield_now() {
    // SAFETY: the function is linked into the image and takes no arguments.
    unsafe { hermit_abi::yield_now() }
}

pub(crate) fn wake(thread: Tid) {
    // SAFETY: only an integer is passed, which the kernel validates.
    unsafe { hermit_abi::wakeup_task(thread) }
}

pub(crate) fn join(thread: Tid) -> ErrnoResult {
    // SAFETY: only an integer is passed, which the kernel validates.
    call_result(unsafe { hermit_abi::join(thread) })
}

pub(crate) fn priority() -> u8 {
    // SAFETY: only integers are passed, which the kernel validates.
    unsafe { hermit_abi::get_priority() }.into()
}

pub(crate) fn set_priority(thread: Tid, priority: u8) {
    // SAFETY: only integers are passed, which the kernel validates.
    unsafe { hermit_abi::set_priority(thread, Priority::from(priority)) }
}

/// Number of CPUs.
pub(crate) fn cpus() -> usize {
    // SAFETY: the function is linked into the image and takes no arguments.
    unsafe { hermit_abi::available_parallelism() }
}

/// Stores the return addresses of the callers; returns their number.
pub(crate) fn backtrace(addresses: &mut [usize]) -> usize {
    // SAFETY: the pointer is valid for that many values, which only this call accesses.
    unsafe { hermit_abi::backtrace(addresses.as_mut_ptr(), addresses.len()) }
}

pub(crate) fn page_size() -> i32 {
    // SAFETY: the function is linked into the image and takes no arguments.
    unsafe { hermit_abi::getpagesize() }
}
