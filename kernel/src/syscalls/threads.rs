//! Threads: starting, joining and scheduling them.

use core::ffi::c_char;

use hermit_abi::Tid;
use hermit_hal::cpus;
use hermit_interface::Errno;
use hermit_sched::thread::Thread as _;

use super::{export, export_plain, user};
use crate::threads::lifecycle::{self, SpawnArgs};
use crate::threads::{deferred_block, errno, name, schedule};

const NANOSECONDS_PER_MILLISECOND: u64 = 1_000_000;

/// The stack of threads that do not say how large it is to be: that of a thread of std.
const DEFAULT_STACK: usize = 1 << 20;

/// Any processor.
const ANY: isize = -1;

fn spawn(
    function: extern "C" fn(usize),
    argument: usize,
    priority: u8,
    stack_size: usize,
    core: isize,
) -> Result<Tid, Errno> {
    let cpu = match core {
        ANY => None,
        core => Some(u32::try_from(core).map_err(|_| Errno::EINVAL)?),
    };
    lifecycle::spawn(&SpawnArgs { function: (function, argument), priority, stack_size, cpu })
}

export_plain! {
    /// Fails with 0.
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

    fn sys_set_thread_name as set_thread_name(name: *const c_char) {
        // SAFETY: the program passes null or a text that ends with 0.
        let name = unsafe { user::text(name, name::MAX_LEN) };
        schedule::current().set_name(name.unwrap_or_default());
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

/// Reached through a function of `hermit-abi` with a type of its own for priorities.
#[unsafe(no_mangle)]
extern "C" fn sys_get_priority() -> u8 {
    schedule::current().entity().priority()
}

/// As [`sys_get_priority`].
#[unsafe(no_mangle)]
extern "C" fn sys_set_priority(id: Tid, priority: u8) {
    if let Some(thread) = lifecycle::find_alive(id) {
        thread.entity().set_priority(priority);
    }
}

export! {
    fn sys_spawn as spawn(
        id: *mut Tid, function: extern "C" fn(usize), argument: usize, priority: u8, core: isize
    ) -> i32 {
        let tid = spawn(function, argument, priority, DEFAULT_STACK, core)?;
        if !id.is_null() {
            // SAFETY: the program passes null or a place for the result.
            unsafe { user::write(id, tid) }?;
        }
        Ok(0)
    }

    fn sys_join as join(id: Tid) -> i32 {
        lifecycle::join(id).map(|()| 0)
    }
}
