//! Starting, ending and joining threads.

use core::convert::Infallible;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

use hermit_hal::interrupts::{self, Masked};
use hermit_hal::memory::{self, OutOfMemory};
use hermit_hal::sync::SpinLock;
use hermit_hal::{clock, cpus, thread};
use hermit_interface::Errno;
use hermit_sched::list::{List, Ready};
use hermit_sched::thread::{MAX_PRIORITY, Thread as _};

use super::cpu::{self, SYSTEM};
use super::thread::{Function, find, register};
use super::{Thread, futex, schedule};

/// The stack that a thread has at least.
const LEAST_STACK: usize = 16 << 10;

/// So many threads that have ended keep their stacks for others.
const KEPT_STACKS: usize = 64;

/// How long a thread waits for the CPU on which it is to run to start.
const START_TIMEOUT: u64 = 1_000_000_000;
const START_POLL: u64 = 1_000_000;

/// Threads that have ended.
static ENDED: SpinLock<Ended> = SpinLock::new(Ended { kept: List::new(), count: 0, bare: List::new() });

#[derive(Debug)]
struct Ended {
    /// With stacks.
    kept: List<Thread, Ready>,
    /// How many those are.
    count: usize,
    /// Without stacks.
    bare: List<Thread, Ready>,
}

/// What is asked of a new thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) function: Function,
    pub(crate) priority: u8,
    pub(crate) stack_size: usize,
    /// The CPU on which it must stay, if any.
    pub(crate) cpu: Option<u32>,
}

/// Starts the machinery with the main thread, which runs `function`, and becomes the CPU's idle thread.
pub(crate) fn start(
    stack_size: usize,
    function: extern "C" fn(usize),
    priority: u8,
) -> Result<Infallible, OutOfMemory> {
    let masked = Masked::new();
    cpu::adopt(&masked)?;
    let wanted = Wanted { function: (function, 0), priority, stack_size, cpu: None };
    let main = prepare(&wanted)?;
    cpu::handle_interrupts();
    memory::set_reclaim(reclaim);
    make_ready(&masked, main);
    cpu::idle(&masked)
}

/// Starts the other CPUs when there is a second thread: before that they could do nothing.
fn start_cpus() {
    static STARTED: AtomicBool = AtomicBool::new(false);
    if !STARTED.swap(true, Relaxed) {
        cpus::start_others(other_cpu);
    }
}

/// Another CPU has started.
fn other_cpu(_number: u32) -> ! {
    let masked = Masked::inherited();
    match cpu::adopt(&masked) {
        Ok(_) => cpu::idle(&masked),
        // It does nothing, but it answers.
        Err(OutOfMemory) => loop {
            interrupts::wait(&masked);
        },
    }
}

/// Starts a thread, and returns its number.
///
/// # Errors
///
/// `EINVAL` for a priority or a CPU that does not exist, `ENOMEM`.
pub(crate) fn spawn(wanted: &Wanted) -> Result<u32, Errno> {
    if wanted.priority > MAX_PRIORITY || wanted.cpu.is_some_and(|cpu| cpu >= cpus::count()) {
        return Err(Errno::EINVAL);
    }
    start_cpus();
    if let Some(cpu) = wanted.cpu {
        wait_for(cpu)?;
    }
    let thread = prepare(wanted).or_else(|OutOfMemory| {
        reclaim();
        prepare(wanted)
    });
    let thread = thread.map_err(|OutOfMemory| Errno::ENOMEM)?;
    let id = thread.id();
    let masked = Masked::new();
    make_ready(&masked, thread);
    Ok(id)
}

/// Waits until a CPU runs.
fn wait_for(cpu: u32) -> Result<(), Errno> {
    let start = clock::monotonic();
    while SYSTEM.get(cpu).is_none() {
        let now = clock::monotonic();
        if now - start > START_TIMEOUT {
            return Err(Errno::EINVAL);
        }
        schedule::sleep_until(now + START_POLL);
    }
    Ok(())
}

fn make_ready(masked: &Masked, thread: &'static Thread) {
    let told = SYSTEM.make_ready(thread);
    cpu::tell(masked, told);
}

/// A thread that can be made ready.
fn prepare(wanted: &Wanted) -> Result<&'static Thread, OutOfMemory> {
    let thread = match take_ended() {
        Some(thread) => thread,
        None => register()?,
    };
    while thread.is_running() {
        // It has ended, and its CPU is about to leave it.
        core::hint::spin_loop();
    }
    let stack_size = wanted.stack_size.max(LEAST_STACK);
    if let Err(error) = thread.context.prepare(stack_size, begin) {
        ENDED.lock().bare.push(thread);
        return Err(error);
    }
    thread.begin();
    *thread.function.lock() = Some(wanted.function);
    let entity = thread.entity();
    entity.set_priority(wanted.priority);
    let here = Masked::new().cpu();
    entity.place(wanted.cpu.unwrap_or(here), wanted.cpu.is_some());
    Ok(thread)
}

fn take_ended() -> Option<&'static Thread> {
    let mut ended = ENDED.lock();
    let kept = ended.kept.pop();
    if kept.is_some() {
        ended.count -= 1;
    }
    kept.or_else(|| ended.bare.pop())
}

/// Where a thread begins.
extern "C" fn begin() -> ! {
    let masked = Masked::inherited();
    let thread = cpu::here(&masked).sched.current();
    drop(masked);
    let function = thread.function.lock().take();
    if let Some((function, argument)) = function {
        function(argument);
    }
    exit(thread)
}

/// Ends the current thread.
fn exit(thread: &'static Thread) -> ! {
    trim(KEPT_STACKS);
    thread.end();
    futex::wake_all(thread.life());
    let masked = Masked::new();
    {
        // From here on it can be used again, as soon as this CPU has left it.
        let mut ended = ENDED.lock();
        ended.kept.push(thread);
        ended.count += 1;
    }
    thread::finish(&masked, &cpu::here(&masked).next().context)
}

/// Takes the stacks of threads that have ended, until at most `keep` have theirs.
fn trim(keep: usize) {
    loop {
        let mut ended = ENDED.lock();
        if ended.count <= keep {
            return;
        }
        let Some(thread) = ended.kept.pop() else { return };
        ended.count -= 1;
        drop(ended);
        while thread.is_running() {
            core::hint::spin_loop();
        }
        thread.context.release();
        ENDED.lock().bare.push(thread);
    }
}

/// The thread of this number, if it has not ended.
pub(crate) fn alive(id: u32) -> Option<&'static Thread> {
    find(id).filter(|thread| thread.is_alive(id))
}

/// Gives back memory that is kept for later.
pub(crate) fn reclaim() {
    trim(0);
    memory::reclaim();
}

/// Waits until a thread has ended.
///
/// # Errors
///
/// `EINVAL` if there was none with this number, `EDEADLK` for the thread itself.
pub(crate) fn join(id: u32) -> Result<(), Errno> {
    let thread = find(id).ok_or(Errno::EINVAL)?;
    if schedule::same(thread, schedule::current()) {
        return Err(Errno::EDEADLK);
    }
    while thread.is_alive(id) {
        match futex::wait(thread.life(), id, None) {
            // It was another thread already, or has just ended.
            Ok(()) | Err(Errno::EAGAIN) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
