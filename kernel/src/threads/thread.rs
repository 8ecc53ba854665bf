//! A thread, and the table of all of them.
//!
//! Threads are never freed: one that has ended is used again for the next, with its stack if that has the right size.

use alloc::sync::Arc;
use alloc::task::Wake;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64};
use core::task::Waker;

use hermit_hal::memory::{self, OutOfMemory};
use hermit_hal::sync::SpinLock;
use hermit_hal::thread::Thread as Context;
use hermit_interface::Errno;
use hermit_sched::thread::Entity;
use spin::Once;

use super::name::Name;
use super::schedule;
use crate::fallible;

/// What a thread runs: the program's function and its argument.
pub(crate) type Function = (extern "C" fn(usize), usize);

/// Most threads at a time.
const MAX_THREADS: usize = 0xffff;

/// A wait that a thread has announced, in the way of early versions of the ABI. Only the thread itself uses it, but for what says
/// otherwise.
#[derive(Debug, Default)]
pub(super) struct Announced {
    /// It waits when it next yields.
    pub(super) block: AtomicBool,
    /// Another thread has woken it by its number since such a wait ended last. Any thread may set it.
    pub(super) woken: AtomicBool,
    /// The count of the queue for which it waits.
    pub(super) count: AtomicU32,
    /// When the wait ends, by the monotonic clock.
    pub(super) deadline: AtomicU64,
}

/// A thread.
#[derive(Debug)]
pub(crate) struct Thread {
    entity: Entity<Self>,
    pub(super) context: Context,
    /// The thread's number while it lives, else 0; those who join wait for this address.
    life: AtomicU32,
    /// The number that it had last.
    id: AtomicU32,
    /// How often it has begun.
    generation: AtomicU32,
    errno: AtomicI32,
    name: SpinLock<Name>,
    /// The CPU among whose timers it is.
    pub(super) timer_cpu: AtomicU32,
    /// What it has said it will wait for, and until when.
    pub(super) announced: Announced,
    pub(super) function: SpinLock<Option<Function>>,
    waker: Once<Waker>,
}

impl hermit_sched::thread::Thread for Thread {
    #[inline]
    fn entity(&self) -> &Entity<Self> {
        &self.entity
    }

    #[inline]
    fn is_running(&self) -> bool {
        self.context.is_running()
    }
}

/// Wakes a thread.
struct ThreadWaker(&'static Thread);

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        schedule::wake(self.0);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        schedule::wake(self.0);
    }
}

impl Thread {
    fn new() -> Self {
        Self {
            entity: Entity::new(),
            context: Context::new(),
            life: AtomicU32::new(0),
            id: AtomicU32::new(0),
            generation: AtomicU32::new(0),
            errno: AtomicI32::new(0),
            name: SpinLock::new(Name::NONE),
            timer_cpu: AtomicU32::new(0),
            announced: Announced::default(),
            function: SpinLock::new(None),
            waker: Once::new(),
        }
    }

    /// A new thread that lives for ever.
    pub(super) fn allocate() -> Result<&'static Self, OutOfMemory> {
        let thread: &'static Self = memory::leak(Self::new()).ok_or(OutOfMemory)?;
        let waker = fallible::arc(ThreadWaker(thread)).ok_or(OutOfMemory)?;
        thread.waker.call_once(|| Waker::from(waker));
        Ok(thread)
    }

    /// The thread's number, which it keeps when it has ended; 0 for a CPU's idle thread.
    pub(crate) fn id(&self) -> u32 {
        self.id.load(Relaxed)
    }

    /// The address that changes when the thread ends.
    pub(super) fn life(&self) -> &AtomicU32 {
        &self.life
    }

    /// Whether it is the thread of this number, and has not ended.
    pub(super) fn is_alive(&self, id: u32) -> bool {
        self.life.load(Acquire) == id
    }

    /// The thread begins under a new number.
    pub(super) fn begin(&self) {
        let generation = self.generation.fetch_add(1, Relaxed) & GENERATIONS;
        let id = generation << PLACE.count_ones() | self.id() & PLACE;
        self.entity.reset();
        self.errno.store(0, Relaxed);
        *self.name.lock() = Name::NONE;
        self.announced.block.store(false, Relaxed);
        self.announced.woken.store(false, Relaxed);
        self.id.store(id, Relaxed);
        self.life.store(id, Release);
    }

    /// The thread ends.
    pub(super) fn end(&self) {
        self.life.store(0, Release);
    }

    pub(super) fn errno(&self) -> i32 {
        self.errno.load(Relaxed)
    }

    pub(super) fn set_errno(&self, error: Errno) {
        self.errno.store(error.number(), Relaxed);
    }

    /// Sets the name to what the bytes begin with.
    pub(crate) fn set_name(&self, bytes: &[u8]) {
        let name = Name::new(bytes);
        *self.name.lock() = name;
    }

    /// The name; none if it just changes. Never waits.
    pub(crate) fn name(&self) -> Name {
        self.name.try_lock().map_or(Name::NONE, |name| *name)
    }

    /// Wakes the thread.
    pub(crate) fn waker(&'static self) -> &'static Waker {
        self.waker.get().unwrap_or(Waker::noop())
    }
}

/// All threads, by place.
static TABLE: SpinLock<Vec<&'static Thread>> = SpinLock::new(Vec::new());

/// The lower half of a number is the place in the table, counted from 1; the upper half says how often the place was
/// used before.
const PLACE: u32 = 0xffff;
const GENERATIONS: u32 = 0x7fff;

/// Enters a new thread into the table.
pub(super) fn register() -> Result<&'static Thread, OutOfMemory> {
    let mut table = TABLE.lock();
    if table.len() >= MAX_THREADS {
        return Err(OutOfMemory);
    }
    table.try_reserve(1).map_err(|_| OutOfMemory)?;
    let thread = Thread::allocate()?;
    table.push(thread);
    thread.id.store(u32::try_from(table.len()).map_err(|_| OutOfMemory)?, Relaxed);
    Ok(thread)
}

/// The thread that has, or had last, this number.
pub(super) fn find(id: u32) -> Option<&'static Thread> {
    let place = (id & PLACE).checked_sub(1)?;
    let thread = TABLE.lock().get(place as usize).copied();
    thread.filter(|thread| thread.id() == id)
}

/// The number of the main thread.
pub(crate) const MAIN_ID: u32 = 1;
