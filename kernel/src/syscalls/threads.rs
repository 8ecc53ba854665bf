//! Threads: creating, joining and scheduling them.

use core::ffi::c_char;

use hermit_abi::Tid;
use hermit_hal::cpus;
use hermit_interface::Errno;
use hermit_sched::thread::Thread as _;

use super::user::Call;
use super::{UserSliceMut, export, export_plain};
use crate::symbols;
use crate::threads::lifecycle::{self, SpawnArgs};
use crate::threads::{deferred_block, errno, name, schedule};

const NANOSECONDS_PER_MILLISECOND: u64 = 1_000_000;

/// Stack size in bytes of threads created by `sys_spawn`, which does not take one: the same as std's default
/// on Hermit.
const DEFAULT_STACK_SIZE: usize = 1 << 20;

/// The thread may run on any CPU.
const ANY_CPU: isize = -1;

fn spawn(
    function: extern "C" fn(usize),
    argument: usize,
    priority: u8,
    stack_size: usize,
    core: isize,
) -> Result<Tid, Errno> {
    let cpu = match core {
        ANY_CPU => None,
        core => Some(u32::try_from(core).map_err(|_| Errno::EINVAL)?),
    };
    lifecycle::spawn(&SpawnArgs { function: (function, argument), priority, stack_size, cpu })
}

export_plain! {
    /// Returns 0 on failure.
    fn sys_spawn2 as spawn2(
        function: extern "C" fn(usize), argument: usize, priority: u8, stack_size: usize, core: isize
    ) -> Tid {
        spawn(function, argument, priority, stack_size, core).unwrap_or_else(|error| {
            errno::set(error);
            0
        })
    }

    fn sys_yield as yield_now() {
        deferred_block::yield_now();
    }

    fn sys_set_thread_name as set_thread_name(name: *const c_char)
    where name: UserText::new(name) {
        schedule::current().set_name(name.get_prefix(name::MAX_LEN).unwrap_or_default());
    }

    fn sys_available_parallelism as available_parallelism() -> usize {
        cpus::count() as usize
    }

    fn sys_get_processor_count as get_processor_count() -> usize {
        cpus::count() as usize
    }

    fn sys_block_current_task as block_current_task() {
        deferred_block::block(None);
    }

    fn sys_block_current_task_with_timeout as block_current_task_with_timeout(milliseconds: u64) {
        deferred_block::block(Some(milliseconds.saturating_mul(NANOSECONDS_PER_MILLISECOND)));
    }

    fn sys_wakeup_taskt as wakeup_task(id: Tid) {
        if let Some(thread) = lifecycle::find_alive(id) {
            deferred_block::wake(thread);
        }
    }
}

const _: [unsafe extern "C" fn(*mut usize, usize) -> usize; 2] = [hermit_abi::backtrace, sys_backtrace];

hermit_hal::stack_entry!(sys_backtrace, backtrace);

/// Called by `sys_backtrace`.
///
/// # Safety
///
/// As `hermit_abi::backtrace`.
unsafe extern "C" fn backtrace(
    addresses: *mut usize,
    count: usize,
    stack_pointer: u64,
    frame_pointer: u64,
) -> usize {
    // SAFETY: the caller keeps the contract of the declaration in `hermit-abi`: the pointer is null, or valid
    // for `count` values that no other code accesses until the function returns.
    let addresses = unsafe { UserSliceMut::new(&Call, addresses, count) };
    let store = |calls: &mut [usize]| symbols::calls(stack_pointer, frame_pointer, calls);
    addresses.get().map_or(0, store)
}

/// Called by `hermit_abi::get_priority`, which has a type of its own for priorities.
#[unsafe(no_mangle)]
extern "C" fn sys_get_priority() -> u8 {
    schedule::current().entity().priority()
}

/// Called by `hermit_abi::set_priority`.
#[unsafe(no_mangle)]
extern "C" fn sys_set_priority(id: Tid, priority: u8) {
    if let Some(thread) = lifecycle::find_alive(id) {
        thread.entity().set_priority(priority);
    }
}

export! {
    fn sys_spawn as spawn(
        id: *mut Tid, function: extern "C" fn(usize), argument: usize, priority: u8, core: isize
    ) -> i32
    where out: UserOut::new(id) {
        let tid = spawn(function, argument, priority, DEFAULT_STACK_SIZE, core)?;
        if !out.is_null() {
            out.write(tid)?;
        }
        Ok(0)
    }

    fn sys_join as join(id: Tid) -> i32 {
        lifecycle::join(id).map(|()| 0)
    }
}
