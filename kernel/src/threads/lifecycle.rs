//! Creating, ending and joining threads.
//!
//! A thread struct is never freed. When a thread ends, its struct is put on a list of ended threads and is
//! used again for a new thread. Up to [`MAX_KEPT_STACKS`] ended threads keep their stacks. [`spawn`]
//! allocates memory only if the list has no suitable thread.
//!
//! A thread cannot free the stack it runs on. So a thread ends in two steps. First it marks itself as ended
//! and wakes the threads that join it. After the switch to the next thread, its context can be used again.
//! The first [`spawn`] also starts the other CPUs, since a program with one thread does not need them.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicUsize};

use hermit_hal::interrupts::{self, Masked};
use hermit_hal::memory::{self, OutOfMemory};
use hermit_hal::sync::SpinLock;
use hermit_hal::thread::ThreadMain;
use hermit_hal::{clock, cpus, thread};
use hermit_interface::Errno;
use hermit_sched::list::{List, Ready};
use hermit_sched::thread::{MAX_PRIORITY, Thread as _};

use super::cpu::{self, SYSTEM};
use super::thread::{Thread, ThreadFunction, find};
use super::{futex, schedule};
use crate::sync::OnceLock;

/// Minimum stack size in bytes.
const MIN_STACK_SIZE: usize = 16 << 10;

/// Maximum number of ended threads that keep their stacks for the next ones.
const MAX_KEPT_STACKS: usize = 64;

/// Limit on waiting for a CPU to start, in nanoseconds.
const CPU_START_TIMEOUT: u64 = 1_000_000_000;

/// Interval of checks for a CPU's start, in nanoseconds.
const CPU_START_POLL_INTERVAL: u64 = 1_000_000;

/// Threads that have ended, to be used again.
static ENDED: SpinLock<Ended> = SpinLock::new(Ended { with_stack: List::new(), without_stack: List::new() });

/// Number of threads in [`Ended::with_stack`]. Changed only under the lock of [`ENDED`].
static KEPT_STACKS: AtomicUsize = AtomicUsize::new(0);

#[derive(Debug)]
struct Ended {
    with_stack: List<Thread, Ready>,
    without_stack: List<Thread, Ready>,
}

impl Ended {
    /// The thread that ended last is used again first. Its stack is in the caches. And if a program starts
    /// and joins one thread after the other, each thread continues with the virtual runtime of the previous
    /// one.
    fn push_with_stack(&mut self, thread: &'static Thread) {
        self.with_stack.push_front(thread);
        KEPT_STACKS.store(KEPT_STACKS.load(Relaxed) + 1, Relaxed);
    }

    fn pop_with_stack(&mut self) -> Option<&'static Thread> {
        let thread = self.with_stack.pop()?;
        KEPT_STACKS.store(KEPT_STACKS.load(Relaxed) - 1, Relaxed);
        Some(thread)
    }
}

/// Properties of a new thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpawnArgs {
    pub(crate) function: ThreadFunction,
    pub(crate) priority: u8,
    /// Stack size in bytes.
    pub(crate) stack_size: usize,
    /// CPU to which the thread is pinned, if any.
    pub(crate) cpu: Option<u32>,
}

/// Starts the scheduler on the boot CPU and creates the main thread. The calling code becomes the idle thread
/// of this CPU. The main thread runs when the caller calls [`cpu::idle`].
pub(crate) fn start(masked: &Masked, main_thread: &SpawnArgs) -> Result<(), OutOfMemory> {
    // `prepare` locks a mutex while interrupts are masked. This is allowed only before there are threads.
    let main = prepare(main_thread)?;
    cpu::adopt(masked)?;
    memory::set_reclaim(reclaim);
    make_ready(masked, main, main_thread.cpu);
    Ok(())
}

/// Starts the other CPUs, once. The first `spawn` calls it, since a program with one thread has no use for
/// them.
fn start_cpus() {
    static STARTED: AtomicBool = AtomicBool::new(false);
    // All later calls only read the flag, so CPUs do not contend for its cache line.
    if !STARTED.load(Relaxed) && !STARTED.swap(true, Relaxed) {
        cpus::start_others(secondary_cpu_main);
    }
}

/// Function that each other CPU calls with its number after it has started. A program without devices does
/// not set it.
static CPU_HOOK: SpinLock<Option<fn(u32)>> = SpinLock::new(None);

/// Sets the function that each other CPU calls with its number after it has started. A CPU that read the hook
/// before this call does not call the function. But the caller can find this CPU with [`cpu::get`], because a
/// CPU registers itself before it takes the lock to read the hook.
pub(crate) fn set_cpu_hook(hook: fn(u32)) {
    *CPU_HOOK.lock() = Some(hook);
}

/// Entry function of the other CPUs.
fn secondary_cpu_main(mut masked: Masked) -> ! {
    match cpu::adopt(&masked) {
        Ok(_) => {
            let hook = *CPU_HOOK.lock();
            if let Some(hook) = hook {
                hook(masked.cpu());
            }
            cpu::idle(&mut masked)
        }
        // Without memory for its state, the CPU does not run threads, but it still handles TLB shootdowns.
        Err(OutOfMemory) => loop {
            interrupts::wait(&mut masked);
        },
    }
}

/// Creates a thread, and returns its number.
///
/// # Errors
///
/// `EINVAL` if the priority or the CPU does not exist. `EAGAIN`, as from `pthread_create`, if there is no
/// memory, no mapping (in a process of Linux) or no thread number for another thread.
pub(crate) fn spawn(args: &SpawnArgs) -> Result<u32, Errno> {
    if args.priority > MAX_PRIORITY || args.cpu.is_some_and(|cpu| cpu >= cpus::count()) {
        return Err(Errno::EINVAL);
    }
    start_cpus();
    if let Some(cpu) = args.cpu {
        wait_for_cpu(cpu)?;
    }
    spawn_for_kernel(args)
}

/// Creates a thread for the kernel's own work, and returns its number. Unlike [`spawn`], does not start the
/// other CPUs.
///
/// # Errors
///
/// `EAGAIN`, as [`spawn`].
pub(crate) fn spawn_for_kernel(args: &SpawnArgs) -> Result<u32, Errno> {
    let thread = prepare(args).or_else(|OutOfMemory| {
        reclaim();
        prepare(args)
    });
    let thread = thread.map_err(|OutOfMemory| Errno::EAGAIN)?;
    let id = thread.id();
    let masked = Masked::new();
    make_ready(&masked, thread, args.cpu);
    Ok(id)
}

/// Waits until a CPU has started.
fn wait_for_cpu(cpu: u32) -> Result<(), Errno> {
    let start = clock::monotonic();
    while SYSTEM.get(cpu).is_none() {
        let now = clock::monotonic();
        if now - start > CPU_START_TIMEOUT {
            return Err(Errno::EINVAL);
        }
        schedule::sleep_until(now + CPU_START_POLL_INTERVAL);
    }
    Ok(())
}

/// Makes a prepared thread ready, near the current CPU or pinned to `cpu`.
fn make_ready(masked: &Masked, thread: &'static Thread, cpu: Option<u32>) {
    let creator = &cpu::here(masked).sched;
    cpu::request_reschedule(masked, SYSTEM.start(creator, thread, cpu, clock::monotonic));
}

/// Returns a new or reused thread with a stack. The thread begins with its function when it is made ready.
fn prepare(args: &SpawnArgs) -> Result<&'static Thread, OutOfMemory> {
    let thread = match take_ended() {
        Some(thread) => thread,
        None => Thread::allocate()?,
    };
    // A thread that has just ended still uses its stack until its CPU has switched to another thread.
    while thread.is_running() {
        core::hint::spin_loop();
    }
    let stack_size = args.stack_size.max(MIN_STACK_SIZE);
    // If `prepare` fails, the thread has no stack any more. `reserve_id` fails only for a thread that has
    // never run, which has no stack, either. So in both cases the thread belongs on the list without stacks.
    let prepared = thread.reserve_id().and_then(|()| thread.context.prepare::<Main>(stack_size));
    if let Err(error) = prepared {
        ENDED.lock().without_stack.push(thread);
        return Err(error);
    }
    thread.begin(args.function);
    thread.entity().set_priority(args.priority);
    Ok(thread)
}

fn take_ended() -> Option<&'static Thread> {
    let mut ended = ENDED.lock();
    ended.pop_with_stack().or_else(|| ended.without_stack.pop())
}

/// Function that all threads execute first. It calls the thread's own function.
enum Main {}

impl ThreadMain for Main {
    fn run(masked: Masked) -> (Masked, &'static thread::Thread) {
        let thread = cpu::here(&masked).sched.current();
        drop(masked);
        if let Some((function, argument)) = thread.function() {
            function(argument);
        }
        end(thread)
    }
}

/// Ends the current thread, `thread`, except for the switch to the next thread. Returns the next thread. The
/// caller switches to it.
fn end(thread: &'static Thread) -> (Masked, &'static thread::Thread) {
    // The thread still runs on its own stack. So it can free only stacks of threads that have ended earlier.
    if KEPT_STACKS.load(Relaxed) > MAX_KEPT_STACKS {
        release_stacks(MAX_KEPT_STACKS);
    }
    thread.end();
    // The loop ends, because no further thread begins to wait now. With one waiter, the usual case, this is
    // shorter than `futex::wake_all`.
    while futex::wake_next(thread.end_futex()) {}
    let masked = Masked::new();
    {
        // From now on, `prepare` may take the thread. It then waits until this CPU has switched to another
        // thread.
        ENDED.lock().push_with_stack(thread);
    }
    let next = cpu::here(&masked).next();
    (masked, &next.context)
}

/// Frees stacks of ended threads until at most `max_kept` threads keep theirs.
#[cold]
fn release_stacks(max_kept: usize) {
    while KEPT_STACKS.load(Relaxed) > max_kept {
        let Some(thread) = ENDED.lock().pop_with_stack() else { return };
        while thread.is_running() {
            core::hint::spin_loop();
        }
        thread.context.release();
        ENDED.lock().without_stack.push(thread);
    }
}

/// Returns the thread with number `id`, if it has not ended.
pub(crate) fn find_alive(id: u32) -> Option<&'static Thread> {
    find(id).filter(|thread| thread.is_alive(id))
}

/// Function that frees memory which files keep for later use. Not set if the program does not use files.
static RECLAIM_FILES: OnceLock<fn()> = OnceLock::new();

/// Sets the function that frees memory which files keep. Later calls have no effect. The function is called
/// without a spinlock. It must not sleep, because its caller may hold other locks.
pub(crate) fn set_reclaim_files(reclaim: fn()) {
    RECLAIM_FILES.get_or_init(|| reclaim);
}

/// Function that frees memory which the network keeps for later use. Not set if the program does not use the
/// network.
static RECLAIM_NETWORK: OnceLock<fn()> = OnceLock::new();

/// Sets the function that frees memory which the network keeps. Later calls have no effect. The function is
/// called without a spinlock.
pub(crate) fn set_reclaim_network(reclaim: fn()) {
    RECLAIM_NETWORK.get_or_init(|| reclaim);
}

/// Function that writes the collected data of files at exit. Not set if the program does not write files.
static FINISH_FILES: OnceLock<fn()> = OnceLock::new();

/// Sets the function that writes the collected data of files at exit. Later calls have no effect.
pub(crate) fn set_finish_files(finish: fn()) {
    FINISH_FILES.get_or_init(|| finish);
}

/// Writes the collected data of files, before the program ends.
pub(crate) fn finish_files() {
    if let Some(finish) = FINISH_FILES.get() {
        finish();
    }
}

/// Frees memory that is kept for later use: stacks of ended threads, names of files, buffers of connections,
/// and memory that the hal keeps.
pub(crate) fn reclaim() {
    release_stacks(0);
    for hook in [&RECLAIM_FILES, &RECLAIM_NETWORK] {
        if let Some(reclaim) = hook.get() {
            reclaim();
        }
    }
    memory::reclaim();
}

/// Waits until the thread with number `id` has ended.
///
/// # Errors
///
/// `EINVAL` if there was never such a thread, `EDEADLK` if it is the current thread.
pub(crate) fn join(id: u32) -> Result<(), Errno> {
    let thread = find(id).ok_or(Errno::EINVAL)?;
    if thread.is(schedule::current()) {
        return Err(Errno::EDEADLK);
    }
    while thread.is_alive(id) {
        match futex::wait(thread.end_futex(), id, None) {
            // The futex has changed, or the wake-up was spurious.
            Ok(()) | Err(Errno::EAGAIN) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
