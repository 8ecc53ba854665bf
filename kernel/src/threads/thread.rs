//! A thread, and the table of all threads.
//!
//! Threads are never freed: a thread that has ended is used again for the next one, with its stack if that has the
//! right size.

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

/// Function of a thread, and the argument with which it is called.
pub(crate) type ThreadFunction = (extern "C" fn(usize), usize);

/// State of a thread's deferred block ([`super::deferred_block`]). Only the thread itself accesses it, except for
/// `woken`.
#[derive(Debug, Default)]
pub(super) struct DeferredBlock {
    /// The thread blocks when it next yields.
    pub(super) block: AtomicBool,
    /// Another thread has woken this one since its last deferred block ended. Any thread may set it.
    pub(super) woken: AtomicBool,
    /// Notification count of the queue that the thread waits for, at the time of `prepare_wait`.
    pub(super) count: AtomicU32,
    /// End of the wait by the monotonic clock, in nanoseconds.
    pub(super) deadline: AtomicU64,
}

/// A thread.
#[derive(Debug)]
pub(crate) struct Thread {
    entity: Entity<Self>,
    /// Stack and saved registers.
    pub(super) context: Context,
    /// Number of the thread while it is alive, else 0. A futex: threads that join this one wait for it to change.
    alive_id: AtomicU32,
    /// Number of the thread; kept after its end.
    id: AtomicU32,
    /// Number of times that the thread has begun.
    generation: AtomicU32,
    errno: AtomicI32,
    name: SpinLock<Name>,
    /// CPU whose timer wakes the thread.
    pub(super) timer_cpu: AtomicU32,
    pub(super) deferred_block: DeferredBlock,
    /// What the thread runs, until it begins.
    pub(super) function: SpinLock<Option<ThreadFunction>>,
    /// Waker of the thread; an idle thread, which never sleeps, has none.
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

impl Thread {
    fn new() -> Self {
        Self {
            entity: Entity::new(),
            context: Context::new(),
            alive_id: AtomicU32::new(0),
            id: AtomicU32::new(0),
            generation: AtomicU32::new(0),
            errno: AtomicI32::new(0),
            name: SpinLock::new(Name::NONE),
            timer_cpu: AtomicU32::new(0),
            deferred_block: DeferredBlock::default(),
            function: SpinLock::new(None),
            waker: Once::new(),
        }
    }

    /// A new thread without a number, which is never freed.
    pub(super) fn allocate() -> Result<&'static Self, OutOfMemory> {
        memory::leak(Self::new()).ok_or(OutOfMemory)
    }

    /// Whether both are the same thread.
    #[inline]
    pub(super) fn is(&self, other: &Self) -> bool {
        core::ptr::eq(self, other)
    }

    /// Number of the thread, also after its end; 0 for a CPU's idle thread.
    pub(crate) fn id(&self) -> u32 {
        self.id.load(Relaxed)
    }

    /// The futex that changes when the thread ends: its value is the thread's number, then 0.
    pub(super) fn end_futex(&self) -> &AtomicU32 {
        &self.alive_id
    }

    /// Whether the thread has number `id` and has not ended.
    pub(super) fn is_alive(&self, id: u32) -> bool {
        self.alive_id.load(Acquire) == id
    }

    /// Starts a new life of the thread, under a new number.
    pub(super) fn begin(&self) {
        let generation = self.generation.fetch_add(1, Relaxed) & GENERATION_MASK;
        let id = generation << INDEX_BITS | self.id() & INDEX_MASK;
        self.entity.reset();
        self.errno.store(0, Relaxed);
        *self.name.lock() = Name::NONE;
        self.deferred_block.block.store(false, Relaxed);
        self.deferred_block.woken.store(false, Relaxed);
        self.id.store(id, Relaxed);
        self.alive_id.store(id, Release);
    }

    /// Marks the thread as ended.
    pub(super) fn end(&self) {
        self.alive_id.store(0, Release);
    }

    pub(super) fn errno(&self) -> i32 {
        self.errno.load(Relaxed)
    }

    pub(super) fn set_errno(&self, error: Errno) {
        self.errno.store(error.number(), Relaxed);
    }

    /// Sets the name to as much of `bytes` as fits ([`Name::new`]).
    pub(crate) fn set_name(&self, bytes: &[u8]) {
        let name = Name::new(bytes);
        *self.name.lock() = name;
    }

    /// Name of the thread; [`Name::NONE`] while another CPU changes it. Never waits, so that the fault handler can call
    /// it.
    pub(crate) fn name(&self) -> Name {
        self.name.try_lock().map_or(Name::NONE, |name| *name)
    }

    /// The waker that wakes the thread.
    pub(crate) fn waker(&'static self) -> &'static Waker {
        self.waker.get().unwrap_or(Waker::noop())
    }
}

/// All threads but the idle threads, by index.
static TABLE: SpinLock<Vec<&'static Thread>> = SpinLock::new(Vec::new());

/// Bits of a thread number with the index in [`TABLE`] plus 1, as many as there are addresses for stacks of std's
/// default size. The bits above, without the sign of an `i32`, count how often the entry was used before.
const INDEX_BITS: u32 = 18;
const INDEX_MASK: u32 = (1 << INDEX_BITS) - 1;
const GENERATION_MASK: u32 = (1 << (i32::BITS - 1 - INDEX_BITS)) - 1;

/// Maximum number of threads at a time.
const MAX_THREADS: usize = INDEX_MASK as usize;

/// Adds a new thread to the table, with the waker that `new_waker` makes for it.
pub(super) fn register(
    new_waker: fn(&'static Thread) -> Option<Waker>,
) -> Result<&'static Thread, OutOfMemory> {
    let mut table = TABLE.lock();
    if table.len() >= MAX_THREADS {
        return Err(OutOfMemory);
    }
    table.try_reserve(1).map_err(|_| OutOfMemory)?;
    let thread = Thread::allocate()?;
    let waker = new_waker(thread).ok_or(OutOfMemory)?;
    thread.waker.call_once(|| waker);
    table.push(thread);
    thread.id.store(u32::try_from(table.len()).map_err(|_| OutOfMemory)?, Relaxed);
    Ok(thread)
}

/// The thread that has, or had last, number `id`.
pub(super) fn find(id: u32) -> Option<&'static Thread> {
    let index = (id & INDEX_MASK).checked_sub(1)?;
    let thread = TABLE.lock().get(index as usize).copied();
    thread.filter(|thread| thread.id() == id)
}

/// Number of the main thread.
pub(crate) const MAIN_ID: u32 = 1;
