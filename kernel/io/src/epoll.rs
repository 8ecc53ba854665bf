//! Sets of watched descriptors: `epoll(7)` of Linux.
//!
//! An entry's waker stays in the wait queue of the entry's object. When the object changes, the waker puts
//! the entry into the ready list of the epoll instance, and wakes a thread that waits for the instance. Both
//! steps take constant time, whatever the number of entries, and do not allocate memory. [`Epoll::poll_wait`]
//! takes entries from the ready list. Only then does it ask the object for its readiness, which registers the
//! waker again. A level-triggered entry that is ready goes to the end of the list, and the next call examines
//! it again.
//!
//! No wake-up is lost, for three reasons. An object registers the waker before it looks at its state. If the
//! object changes while a thread examines it, the entry notes the change and returns to the list when the
//! examination ends. A thread finds the list empty and registers itself as waiting without releasing the lock
//! in between.
//!
//! While a thread examines an entry, the entry is not in the ready list. So another thread may find the list
//! empty and wait, although that entry is ready. The first thread wakes it if it leaves a ready entry in the
//! list.
//!
//! The lock is never held while an object is called, a waker is woken or a value is dropped.

mod nesting;
mod set;

use alloc::sync::Arc;
use alloc::task::Wake;
use core::any::Any;
use core::fmt::{self, Debug};
use core::marker::PhantomData;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicUsize};
use core::task::{Context, Poll, Waker};

use hermit_abi::{
    EPOLLERR, EPOLLET, EPOLLEXCLUSIVE, EPOLLHUP, EPOLLIN, EPOLLONESHOT, EPOLLOUT, EPOLLRDHUP, EPOLLRDNORM,
    EPOLLWAKEUP, EPOLLWRNORM,
};
use hermit_base::sync::Mutex;
use hermit_base::try_alloc::TryArc;
use hermit_base::wait::WakerQueue;
use hermit_interface::Errno;
use lock_api::RawMutex;

use self::nesting::Nesting;
use self::set::{Entry, EntrySet, Examined, Outcome, Purpose, Taken};
use crate::{Object, ReadBuffer, Readiness, Stat};

/// Mode bits. They select how events are reported, and are not events themselves.
const MODES: u32 = EPOLLWAKEUP | EPOLLONESHOT | EPOLLET | EPOLLEXCLUSIVE;

/// Bits that an exclusive entry may have.
const WITH_EXCLUSIVE: u32 = EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP | EPOLLWAKEUP | EPOLLET | EPOLLEXCLUSIVE;

/// An event of a watched descriptor, or the events for which to watch a descriptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// `EPOLL` bits.
    pub events: u32,
    /// The program's data.
    pub data: u64,
}

/// An epoll instance.
///
/// `R` may be a spinlock. `A` allocates the memory of a new entry.
pub struct Epoll<R: RawMutex, A> {
    shared: Arc<Shared<R>>,
    nonblocking: AtomicBool,
    allocator: PhantomData<fn() -> A>,
}

/// State that an instance shares with its wakers.
struct Shared<R: RawMutex> {
    set: Mutex<R, EntrySet>,
    nesting: Nesting,
}

/// Target of a waker that is registered with an object: an entry of an instance.
struct Registration<R: RawMutex> {
    shared: Arc<Shared<R>>,
    /// The entry's number. It is set before the waker is registered.
    number: AtomicUsize,
}

/// Effect of an object's change on its entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// The ready list is unchanged. If a thread is examining the entry, the entry notes the change until the
    /// examination ends.
    Unseen,
    /// The entry was put into the ready list.
    Queued,
    /// The entry was already in the ready list. Edge-triggered watchers of the instance must still be woken.
    /// The change has also removed the entry's waker from the object's queue. The watchers look at the
    /// instance, which registers the waker again.
    Repeated,
}

/// Wakers to be called because an entry is in the ready list.
#[derive(Debug, Default)]
struct Woken {
    sleeper: Option<Waker>,
    watchers: WakerQueue,
}

impl Woken {
    fn of(set: &mut EntrySet) -> Self {
        Self { sleeper: set.sleepers.pop(), ..Self::watchers_of(set) }
    }

    fn watchers_of(set: &mut EntrySet) -> Self {
        Self { sleeper: None, watchers: core::mem::take(&mut set.watchers) }
    }

    fn wake(self) {
        if let Some(sleeper) = self.sleeper {
            sleeper.wake();
        }
        self.watchers.wake();
    }
}

impl<R: RawMutex + Send + Sync + 'static> Wake for Registration<R> {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut set = self.shared.set.lock();
        let woken = match set.note_change(self.number.load(Relaxed), Arc::as_ptr(self).addr()) {
            Change::Unseen => return,
            Change::Queued => Woken::of(&mut set),
            Change::Repeated => Woken::watchers_of(&mut set),
        };
        drop(set);
        woken.wake();
    }
}

impl<R: RawMutex + Send + Sync + 'static, A: TryArc> Epoll<R, A> {
    /// An instance without entries.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new() -> Result<Self, Errno> {
        let shared = Shared { set: Mutex::new(EntrySet::new()), nesting: Nesting::default() };
        let shared = A::arc(shared).ok_or(Errno::ENOMEM)?;
        Ok(Self { shared, nonblocking: AtomicBool::new(false), allocator: PhantomData })
    }

    /// Returns the epoll instance if the object is one.
    #[must_use]
    pub fn of(object: &dyn Object) -> Option<&Self> {
        let object: &dyn Any = object;
        object.downcast_ref()
    }

    /// Watches a descriptor for events (`EPOLL_CTL_ADD`). If the object is an epoll instance, the caller
    /// ensures that no other thread adds an epoll instance to any instance at the same time.
    ///
    /// # Errors
    ///
    /// `EPERM` if the object cannot be watched; `EINVAL` if the object is this instance, or if the events
    /// exclude each other; `ELOOP` if the object is an instance that watches this one, directly or
    /// indirectly, or if the nesting becomes too deep; `EEXIST` if the descriptor is already watched;
    /// `ENOSPC` with more than a million entries; `ENOMEM`.
    pub fn add(&self, descriptor: i32, object: &Arc<dyn Object>, event: Event) -> Result<(), Errno> {
        self.check(&**object)?;
        let nested = Self::of(&**object);
        let exclusive = event.events & EPOLLEXCLUSIVE != 0;
        if exclusive && (nested.is_some() || event.events & !WITH_EXCLUSIVE != 0) {
            return Err(Errno::EINVAL);
        }
        let above = nested.map(|nested| self.check_nesting(nested)).transpose()?;
        if self.shared.set.lock().find(descriptor, object).is_some() {
            return Err(Errno::EEXIST);
        }
        let examined = self.insert(descriptor, object, nested.is_some(), with_errors(event))?;
        if let (Some(nested), Some(above)) = (nested, above) {
            nested.raise(above);
        }
        self.enter(&examined);
        Ok(())
    }

    /// Changes the events of a watched descriptor (`EPOLL_CTL_MOD`).
    ///
    /// # Errors
    ///
    /// `EPERM` and `EINVAL` as [`Self::add`]; `EINVAL` if the entry is exclusive or would become exclusive;
    /// `ENOENT` if the descriptor is not watched.
    pub fn modify(&self, descriptor: i32, object: &Arc<dyn Object>, event: Event) -> Result<(), Errno> {
        self.check(&**object)?;
        if event.events & EPOLLEXCLUSIVE != 0 {
            return Err(Errno::EINVAL);
        }
        let mut set = self.shared.set.lock();
        let number = set.find(descriptor, object).ok_or(Errno::ENOENT)?;
        if set.get(number).is_some_and(|entry| entry.events() & EPOLLEXCLUSIVE != 0) {
            return Err(Errno::EINVAL);
        }
        let examined = set.modify(number, with_errors(event));
        drop(set);
        if let Some(examined) = examined {
            self.enter(&examined);
        }
        Ok(())
    }

    /// Stops watching a descriptor (`EPOLL_CTL_DEL`).
    ///
    /// # Errors
    ///
    /// `EPERM` and `EINVAL` as [`Self::add`], `ENOENT` if the descriptor is not watched.
    pub fn remove(&self, descriptor: i32, object: &Arc<dyn Object>) -> Result<(), Errno> {
        self.check(&**object)?;
        let mut set = self.shared.set.lock();
        let number = set.find(descriptor, object).ok_or(Errno::ENOENT)?;
        let entry = set.remove(number);
        drop(set);
        if let Some(entry) = entry {
            object.unwatch(&Context::from_waker(&entry.waker));
        }
        Ok(())
    }

    /// Checks that an operation on this object is possible.
    fn check(&self, object: &dyn Object) -> Result<(), Errno> {
        if !object.is_watchable() {
            return Err(Errno::EPERM);
        }
        let is_same = Self::of(object).is_some_and(|other| Arc::ptr_eq(&other.shared, &self.shared));
        if is_same { Err(Errno::EINVAL) } else { Ok(()) }
    }

    /// Adds an entry. The caller must then examine the entry.
    fn insert(
        &self,
        descriptor: i32,
        object: &Arc<dyn Object>,
        is_nested: bool,
        event: Event,
    ) -> Result<Examined, Errno> {
        let registration = Registration { shared: Arc::clone(&self.shared), number: AtomicUsize::new(0) };
        let registration = A::arc(registration).ok_or(Errno::ENOMEM)?;
        let address = Arc::as_ptr(&registration).addr();
        // Wait queues compare wakers with `will_wake`, which also compares their function tables. Only clones
        // of the same waker are certain to have the same table, so all wakers of this entry are clones of one
        // clone.
        let original = Waker::from(Arc::clone(&registration));
        let waker = original.clone();
        let entry = Entry::new(descriptor, object, is_nested, (waker.clone(), address), event);
        let mut entry = Some(entry);
        loop {
            let mut set = self.shared.set.lock();
            if set.find(descriptor, object).is_some() {
                drop(set);
                return Err(Errno::EEXIST);
            }
            if let Some(stale) = set.remove_stale(descriptor) {
                drop(set);
                drop(stale);
                continue;
            }
            let growth = match set.insert(&mut entry) {
                Ok(number) => {
                    registration.number.store(number, Relaxed);
                    let of = (number, address, event.events);
                    return Ok(Examined::new(of, waker, Arc::clone(object)));
                }
                Err(growth) => growth,
            };
            drop(set);
            let memory = growth.ok_or(Errno::ENOSPC)?.allocate().ok_or(Errno::ENOMEM)?;
            let surplus = self.shared.set.lock().grow(memory);
            drop(surplus);
        }
    }

    /// Examines an entry that is new or whose events have changed.
    fn enter(&self, examined: &Examined) {
        self.examine(examined, Purpose::Enter);
    }

    /// Examines an entry: asks its object for the readiness. Returns the event of the entry, if there is one.
    fn examine(&self, examined: &Examined, purpose: Purpose) -> Option<Event> {
        let mut context = Context::from_waker(&examined.waker);
        let ready = if examined.is_exclusive {
            examined.object.watch_exclusive(&mut context)
        } else {
            examined.object.watch(&mut context)
        };
        let found = events(ready);
        let mut set = self.shared.set.lock();
        let outcome = set.settle(examined, found, purpose);
        let Some(Outcome { event, is_news }) = outcome else {
            drop(set);
            // The entry was removed from the set meanwhile, but `watch` above has registered its waker again.
            examined.object.unwatch(&context);
            return None;
        };
        let woken = if is_news { Woken::of(&mut set) } else { Woken::default() };
        drop(set);
        woken.wake();
        event
    }

    /// Passes at most `max` events to `deliver`, and returns the number of events. If there is no event,
    /// registers the waker and returns `Pending`. When the caller stops waiting, it must call [`Self::scan`].
    pub fn poll_wait(
        &self,
        context: &Context<'_>,
        max: usize,
        deliver: &mut dyn FnMut(Event),
    ) -> Poll<usize> {
        let count = self.scan(context, max, deliver);
        if count > 0 {
            return Poll::Ready(count);
        }
        let mut set = self.shared.set.lock();
        // True if an object has changed since the scan found its entry not ready, or if there is no memory to
        // register the waker.
        let is_again = set.has_ready() || set.sleepers.add(context.waker()).is_err();
        drop(set);
        if is_again {
            // The caller polls again later instead of looping here, so that other tasks can run.
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// Passes at most `max` events to `deliver`, and returns the number of events. Removes the waker that
    /// [`Self::poll_wait`] has registered.
    pub fn scan(&self, context: &Context<'_>, max: usize, deliver: &mut dyn FnMut(Event)) -> usize {
        let (purpose, former) = {
            let mut set = self.shared.set.lock();
            (Purpose::Deliver(set.begin_scan()), set.sleepers.remove(context.waker()))
        };
        drop(former);
        let mut count = 0;
        while count < max
            && let Some(examined) = self.take_ready(purpose)
        {
            if let Some(event) = self.examine(&examined, purpose) {
                deliver(event);
                count += 1;
            }
        }
        self.pass_on();
        count
    }

    /// Takes the first entry from the ready list. Returns `None` if the list is empty, or if this scan or a
    /// later one has already taken the entry.
    fn take_ready(&self, purpose: Purpose) -> Option<Examined> {
        loop {
            let taken = self.shared.set.lock().take_ready(purpose);
            match taken? {
                Taken::Entry(examined) => return Some(examined),
                Taken::Stale(entry) => drop(entry),
            }
        }
    }

    /// Wakes another waiting thread if the ready list still has entries.
    fn pass_on(&self) {
        let mut set = self.shared.set.lock();
        let sleeper = if set.has_ready() { set.sleepers.pop() } else { None };
        drop(set);
        if let Some(sleeper) = sleeper {
            sleeper.wake();
        }
    }

    /// Returns true if an entry is ready. Entries that turn out not to be ready leave the ready list.
    fn is_ready(&self) -> bool {
        let purpose = Purpose::Look(self.shared.set.lock().begin_scan());
        while let Some(examined) = self.take_ready(purpose) {
            if self.examine(&examined, purpose).is_some() {
                self.pass_on();
                return true;
            }
        }
        false
    }
}

/// Converts the readiness of an object to `EPOLL` bits.
const fn events(readiness: Readiness) -> u32 {
    const fn bits(is_set: bool, events: u32) -> u32 {
        if is_set { events } else { 0 }
    }
    bits(readiness.read, EPOLLIN | EPOLLRDNORM)
        | bits(readiness.write, EPOLLOUT | EPOLLWRNORM)
        | bits(readiness.read_hang_up, EPOLLRDHUP)
        | bits(readiness.hang_up, EPOLLHUP)
        | bits(readiness.error, EPOLLERR)
}

/// Adds the bits of errors and hang-ups, which are reported even if they are not requested.
const fn with_errors(event: Event) -> Event {
    Event { events: event.events | EPOLLERR | EPOLLHUP, ..event }
}

impl<R: RawMutex + Send + Sync + 'static, A: TryArc> Object for Epoll<R, A> {
    fn poll_read(&self, _context: &mut Context<'_>, _buffer: &mut ReadBuffer<'_>) -> Poll<Result<(), Errno>> {
        Poll::Ready(Err(Errno::EINVAL))
    }

    fn poll_write(&self, _context: &mut Context<'_>, _bytes: &[u8]) -> Poll<Result<usize, Errno>> {
        Poll::Ready(Err(Errno::EINVAL))
    }

    fn stat(&self) -> Result<Stat, Errno> {
        Ok(Stat::ANONYMOUS)
    }

    fn poll_ready(&self, context: &mut Context<'_>) -> Readiness {
        let added = self.shared.set.lock().watchers.add(context.waker());
        if added.is_err() {
            // Without memory for the queue, the task polls again at once instead of waiting.
            context.waker().wake_by_ref();
        }
        Readiness { read: self.is_ready(), ..Readiness::default() }
    }

    fn is_watchable(&self) -> bool {
        true
    }

    fn unwatch(&self, context: &Context<'_>) {
        let removed = self.shared.set.lock().watchers.remove(context.waker());
        drop(removed);
    }

    fn is_nonblocking(&self) -> bool {
        self.nonblocking.load(Relaxed)
    }

    fn set_nonblocking(&self, nonblocking: bool) -> Result<(), Errno> {
        self.nonblocking.store(nonblocking, Relaxed);
        Ok(())
    }
}

impl<R: RawMutex, A> Drop for Epoll<R, A> {
    fn drop(&mut self) {
        let bound = self.shared.set.lock().bound();
        for number in 0..bound {
            let entry = self.shared.set.lock().remove(number);
            let Some(entry) = entry else { continue };
            if let Some(object) = entry.object() {
                object.unwatch(&Context::from_waker(&entry.waker));
            }
        }
    }
}

impl<R: RawMutex, A> Debug for Epoll<R, A> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Epoll").finish_non_exhaustive()
    }
}

#[cfg(test)]
#[cfg(loom)]
mod models;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;
