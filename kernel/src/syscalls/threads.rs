//! Threads. There is one today: starting another fails, and the scheduler has nobody to choose from.

use hermit_abi::{NORMAL_PRIO, Tid};
use hermit_interface::Errno;

use super::{export, export_plain, unsupported};
use crate::thread;

export_plain! {
    /// Fails with 0.
    fn sys_spawn2 as spawn2(
        _function: extern "C" fn(usize), _argument: usize, _priority: u8, _stack_size: usize, _core: isize
    ) -> Tid {
        thread::failed(Errno::EAGAIN);
        0
    }

    fn sys_yield as yield_now() {}

    fn sys_available_parallelism as available_parallelism() -> usize {
        1
    }

    fn sys_get_processor_count as get_processor_count() -> usize {
        1
    }

    /// Blocking the only thread would be for ever; nobody could wake it.
    fn sys_block_current_task as block_current_task() {}

    fn sys_block_current_task_with_timeout as block_current_task_with_timeout(_milliseconds: u64) {}

    fn sys_wakeup_taskt as wakeup_task(_id: Tid) {}
}

/// Reached through a function of `hermit-abi` with a type of its own for priorities.
#[unsafe(no_mangle)]
extern "C" fn sys_get_priority() -> u8 {
    NORMAL_PRIO.into()
}

/// As [`sys_get_priority`]; there is nobody to be preferred to.
#[unsafe(no_mangle)]
extern "C" fn sys_set_priority(_id: Tid, _priority: u8) {}

unsupported! {
    EAGAIN;
    sys_spawn as spawn(*mut Tid, extern "C" fn(usize), usize, u8, isize) -> i32,
}

export! {
    fn sys_join as join(id: Tid) -> i32 {
        // A thread that waits for itself would wait for ever.
        Err(if i32::try_from(id) == Ok(thread::MAIN_ID) { Errno::EINVAL } else { Errno::ESRCH })
    }
}
