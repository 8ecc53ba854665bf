//! `epoll`: sets of watched descriptors.

use alloc::sync::Arc;
use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::task::{Context, Poll};

use hermit_abi::{EPOLL_CLOEXEC, EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, epoll_event, timespec};
use hermit_base::try_alloc::TryArc;
use hermit_hal::clock;
use hermit_hal::sync::RawSpinLock;
use hermit_interface::Errno;
use hermit_io::{Event, Object};

use super::events::NANOSECONDS_PER_MILLISECOND;
use super::export;
use super::time::nanoseconds;
use super::user::UserSliceMut;
use crate::net::waiting;
use crate::sync::Mutex;
use crate::threads::schedule;
use crate::threads::wait::block_until;
use crate::{descriptors, fallible};

/// Allocates shared references on the kernel's heap.
#[derive(Debug)]
struct Heap;

impl TryArc for Heap {
    fn arc<T>(value: T) -> Option<Arc<T>> {
        fallible::arc(value)
    }
}

type Epoll = hermit_io::Epoll<RawSpinLock, Heap>;

/// Serialises calls that add an epoll instance to another instance.
static NESTING: Mutex = Mutex::new();

/// Returns the epoll instance that an object is.
///
/// # Errors
///
/// `EINVAL` if it is not an epoll instance.
fn instance(object: &dyn Object) -> Result<&Epoll, Errno> {
    Epoll::of(object).ok_or(Errno::EINVAL)
}

/// Executes an operation (`EPOLL_CTL_`) on the set of `epfd`. `event` is `None` only if the operation needs
/// no event.
fn control(epfd: i32, operation: i32, fd: i32, event: Option<epoll_event>) -> Result<(), Errno> {
    let (epoll, object) = (descriptors::get(epfd)?, descriptors::get(fd)?);
    if !object.is_watchable() {
        return Err(Errno::EPERM);
    }
    let epoll = instance(&*epoll)?;
    let event = event.map(|event| Event { events: event.events, data: event.u64 }).unwrap_or_default();
    match operation {
        EPOLL_CTL_ADD if Epoll::of(&*object).is_some() => NESTING.with(|| epoll.add(fd, &object, event)),
        EPOLL_CTL_ADD => epoll.add(fd, &object, event),
        EPOLL_CTL_DEL => epoll.remove(fd, &object),
        EPOLL_CTL_MOD => epoll.modify(fd, &object, event),
        _ => Err(Errno::EINVAL),
    }
}

/// Checks a maximum number of events: the size of so many events must fit into an `i32`.
fn check_max(max: i32) -> Result<(), Errno> {
    let size = usize::try_from(max).ok().and_then(|max| max.checked_mul(size_of::<epoll_event>()));
    let is_valid = size.is_some_and(|size| size > 0 && i32::try_from(size).is_ok());
    if is_valid { Ok(()) } else { Err(Errno::EINVAL) }
}

/// Returns the deadline of a wait that begins now and has a timeout in nanoseconds.
fn deadline(timeout: Option<u64>) -> Option<u64> {
    timeout.map(|timeout| clock::monotonic().saturating_add(timeout))
}

/// Waits for events, at most until the timeout in nanoseconds. Returns the number of events.
fn wait(epfd: i32, events: &mut [MaybeUninit<epoll_event>], timeout: Option<u64>) -> Result<i32, Errno> {
    let object = descriptors::get(epfd)?;
    let (epoll, max) = (instance(&*object)?, events.len());
    let mut places = events.iter_mut();
    let mut deliver = |event: Event| {
        if let Some(place) = places.next() {
            place.write(epoll_event { events: event.events, u64: event.data });
        }
    };
    let context = Context::from_waker(schedule::current().waker());
    let mut count = epoll.scan(&context, max, &mut deliver);
    if count == 0 && timeout != Some(0) {
        let waited =
            waiting::block_until(deadline(timeout), |context| epoll.poll_wait(context, max, &mut deliver));
        // After a timeout, the scan takes events that came at the same time, and wakes another thread if it
        // leaves events.
        count = waited.unwrap_or_else(|| epoll.scan(&context, max, &mut deliver));
    }
    Ok(i32::try_from(count).unwrap_or(i32::MAX))
}

/// Does [`wait`] with the address of the program's array for the events.
fn wait_into(
    epfd: i32,
    events: UserSliceMut<'_, MaybeUninit<epoll_event>>,
    timeout: Option<u64>,
) -> Result<i32, Errno> {
    if events.is_null() { wait_without_memory(epfd, timeout) } else { wait(epfd, events.get()?, timeout) }
}

/// Waits for an event when the array is invalid. The event stays in the set, and the call fails with
/// `EFAULT`.
fn wait_without_memory(epfd: i32, timeout: Option<u64>) -> Result<i32, Errno> {
    let object = descriptors::get(epfd)?;
    let epoll = instance(&*object)?;
    let waited = block_until(deadline(timeout), |context| {
        if epoll.poll_ready(context).read { Poll::Ready(()) } else { Poll::Pending }
    });
    epoll.unwatch(&Context::from_waker(schedule::current().waker()));
    waited.map_or(Ok(0), |()| Err(Errno::EFAULT))
}

export! {
    fn sys_epoll_create1 as epoll_create1(flags: i32) -> i32 {
        if flags & !EPOLL_CLOEXEC != 0 {
            return Err(Errno::EINVAL);
        }
        descriptors::open(fallible::arc(Epoll::new()?).ok_or(Errno::ENOMEM)?)
    }

    fn sys_epoll_ctl as epoll_ctl(epfd: i32, op: i32, fd: i32, event: *const epoll_event) -> i32
    where event: UserPtr::new(event) {
        let event = if op == EPOLL_CTL_DEL { None } else { Some(event.read()?) };
        control(epfd, op, fd, event).map(|()| 0)
    }

    fn sys_epoll_wait as epoll_wait(epfd: i32, events: *mut epoll_event, maxevents: i32, timeout: i32) -> i32
    where events: UserSliceMut::events(events, maxevents) {
        check_max(maxevents)?;
        wait_into(epfd, events, u64::try_from(timeout).ok().map(|timeout| timeout * NANOSECONDS_PER_MILLISECOND))
    }

    fn sys_epoll_pwait2 as epoll_pwait2(
        epfd: i32,
        events: *mut epoll_event,
        maxevents: i32,
        timeout: *const timespec,
        _sigmask: *const c_void
    ) -> i32
    where events: UserSliceMut::events(events, maxevents), timeout: UserPtr::new(timeout) {
        let timeout = if timeout.is_null() { None } else { Some(nanoseconds(timeout.read()?)?) };
        check_max(maxevents)?;
        wait_into(epfd, events, timeout)
    }
}
