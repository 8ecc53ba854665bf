//! A thread, and the table of all threads.
//!
//! A [`Thread`] struct is never freed. After the thread has ended, the struct is used again for a new thread,
//! with its stack if the stack has the right size. So a struct has several lives, each with a thread number
//! of its own. A reference to a [`Thread`] is always valid. But a thread number may belong to a thread that
//! has ended, so users of a number check it with [`Thread::is_alive`].

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize};
use core::task::Waker;

use crossbeam_utils::atomic::AtomicCell;
use hermit_hal::memory::{self, OutOfMemory};
use hermit_hal::once::Once;
use hermit_hal::sync::SpinLock;
use hermit_hal::thread::Thread as Context;
use hermit_hal::waker::waker;
use hermit_interface::Errno;
use hermit_sched::thread::{Entity, Link};
use hermit_sched::thread_table::{EnterError, TableCursor, ThreadTable};

use super::name::Name;
use crate::sync::Mutex;

/// Function of a thread, and the argument with which it is called.
pub(crate) type ThreadFunction = (extern "C" fn(usize), usize);

/// State of a thread's deferred block ([`super::deferred_block`]). Only the thread itself accesses it, except
/// the field `woken`.
#[derive(Debug, Default)]
pub(super) struct DeferredBlock {
    /// True if the thread blocks when it next yields.
    pub(super) block: AtomicBool,
    /// True if another thread has woken this one since its last deferred block ended. Any thread may set this
    /// field.
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
    /// Number of the thread while it is alive, else 0. It is a futex: threads that join this thread wait
    /// until it changes.
    alive_id: AtomicU32,
    /// Number of the thread. It is kept after the thread's end.
    id: AtomicU32,
    /// Thread number of the next life. 0 if the thread must first be entered in the table.
    next_id: AtomicU32,
    errno: AtomicI32,
    name: SpinLock<Name>,
    /// CPU whose timer wakes the thread.
    pub(super) timer_cpu: AtomicU32,
    pub(super) deferred_block: DeferredBlock,
    /// Function that the thread runs, and its argument. They are set before the thread is made ready. Only
    /// the thread itself reads them.
    function: AtomicCell<Option<extern "C" fn(usize)>>,
    argument: AtomicUsize,
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
            next_id: AtomicU32::new(0),
            errno: AtomicI32::new(0),
            name: SpinLock::new(Name::NONE),
            timer_cpu: AtomicU32::new(0),
            deferred_block: DeferredBlock::default(),
            function: AtomicCell::new(None),
            argument: AtomicUsize::new(0),
            waker: Once::new(),
        }
    }

    /// Creates a thread without a number. It is never freed.
    pub(super) fn allocate() -> Result<&'static Self, OutOfMemory> {
        memory::leak(Self::new()).ok_or(OutOfMemory)
    }

    /// Chooses the number of the thread's next life.
    pub(super) fn reserve_id(&'static self) -> Result<(), OutOfMemory> {
        if self.next_id.load(Relaxed) != 0 {
            return Ok(());
        }
        let last = self.id();
        let next = match enter(self, last) {
            // Without memory for another entry, the thread keeps its entry, whose numbers begin again.
            Err(OutOfMemory) if last != 0 => Table::first_number(last),
            number => number?,
        };
        self.next_id.store(next, Relaxed);
        self.waker.call_once(|| waker(self));
        Ok(())
    }

    /// Returns true if both are the same thread.
    #[inline]
    pub(super) fn is(&self, other: &Self) -> bool {
        core::ptr::eq(self, other)
    }

    /// Returns the number of the thread, even after its end. The number is 0 for the idle thread of a CPU.
    pub(crate) fn id(&self) -> u32 {
        self.id.load(Relaxed)
    }

    /// Returns the futex that changes when the thread ends. Its value is the thread's number before, and 0
    /// afterwards.
    pub(super) fn end_futex(&self) -> &AtomicU32 {
        &self.alive_id
    }

    /// Returns true if the thread has number `id` and has not ended.
    pub(super) fn is_alive(&self, id: u32) -> bool {
        self.alive_id.load(Acquire) == id
    }

    /// Starts a new life of the thread, under the number that [`Self::reserve_id`] has chosen.
    pub(super) fn begin(&self, (function, argument): ThreadFunction) {
        let id = self.next_id.load(Relaxed);
        self.next_id.store(Table::next_number(id).unwrap_or(0), Relaxed);
        self.entity.reset();
        self.errno.store(0, Relaxed);
        *self.name.lock() = Name::NONE;
        self.deferred_block.block.store(false, Relaxed);
        self.deferred_block.woken.store(false, Relaxed);
        self.function.store(Some(function));
        self.argument.store(argument, Relaxed);
        self.id.store(id, Relaxed);
        self.alive_id.store(id, Release);
    }

    /// Returns the function and the argument of the thread, which must be the current thread. Returns `None`
    /// for an idle thread.
    pub(super) fn function(&self) -> Option<ThreadFunction> {
        Some((self.function.load()?, self.argument.load(Relaxed)))
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

    /// Returns the name of the thread, or [`Name::NONE`] while another CPU is changing the name. Never waits,
    /// so that the fault handler can call it.
    pub(crate) fn name(&self) -> Name {
        self.name.try_lock().map_or(Name::NONE, |name| *name)
    }

    /// The waker that wakes the thread.
    pub(crate) fn waker(&'static self) -> &'static Waker {
        self.waker.get().unwrap_or(Waker::noop())
    }
}

/// Number of bits in a thread number for the index of the thread's entry in the table. So there can be
/// 262,143 threads. A machine of 2 GiB has addresses for so many stacks of std's default size.
const INDEX_BITS: u32 = 18;

type Table = ThreadTable<Thread, INDEX_BITS>;

/// All threads except the idle threads, by number.
static TABLE: Table = Table::new();

/// Cursor of [`TABLE`].
static CURSOR: SpinLock<TableCursor> = SpinLock::new(TableCursor::new());

/// Enters a thread in the table, and returns the first number of its new entry. `old`, the last number of the
/// thread, says which entry the thread leaves.
fn enter(thread: &'static Thread, old: u32) -> Result<u32, OutOfMemory> {
    loop {
        let entered = TABLE.enter(&mut CURSOR.lock(), thread, old);
        match entered {
            Ok(number) => return Ok(number),
            Err(EnterError::MissingChunk(size)) => add_chunk(size)?,
            Err(EnterError::Again) => {}
            Err(EnterError::Full) => return Err(OutOfMemory),
        }
    }
}

/// Adds a chunk of up to 1 MiB to the table. Other threads that need the chunk sleep meanwhile. Interrupts
/// are masked while the memory is allocated, but not while it is filled.
fn add_chunk(size: usize) -> Result<(), OutOfMemory> {
    static GROWTH: Mutex = Mutex::new();
    let chunk = || memory::leak_slice(size, || Link::new(None));
    GROWTH.with(|| TABLE.add_chunk(size, chunk)).ok_or(OutOfMemory)
}

/// Returns the thread whose current or last number is `id`.
pub(super) fn find(id: u32) -> Option<&'static Thread> {
    TABLE.find(id).filter(|thread| thread.id() == id)
}

/// Returns the number of threads that have begun and not yet ended.
pub(crate) fn count_alive() -> usize {
    TABLE.threads().filter(|thread| thread.alive_id.load(Relaxed) != 0).count()
}

/// Number of the main thread.
pub(crate) const MAIN_ID: u32 = 1;
