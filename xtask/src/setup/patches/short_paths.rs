//! The patches that shorten what programs call most: the lock of a mutex, the monotonic clock, and the start
//! of a thread.
//!
//! A mutex that is held has bit 0 set, whether threads wait for it or not. So locking is an instruction that
//! sets the bit and says what it was. Unlocking remains one exchange, which does not access the mutex after
//! its release: a thread that locks it next may free it, as rayon's latches on stacks.
//! `kernel/sched/src/mutex.rs` is the same, with models.

use super::Patch;

const MUTEX: &str = "std/src/sys/sync/mutex/futex.rs";
const SPAWN_HOOKS: &str = "std/src/thread/spawnhook.rs";
const TIME: &str = "std/src/sys/time/hermit.rs";

pub(super) const PATCHES: &[Patch] = &[
    Patch {
        file: MUTEX,
        old: "const LOCKED: State = 1; // locked, no other threads waiting
const CONTENDED: State = 2; // locked, and other threads waiting (contended)
",
        new: "const LOCKED: State = 1; // locked, no other threads waiting
const CONTENDED: State = 3; // locked, and other threads waiting (contended): has the bit of `LOCKED`
",
    },
    Patch {
        file: MUTEX,
        old: "        self.futex.compare_exchange(UNLOCKED, LOCKED, Acquire, Relaxed).is_ok()\n",
        new: "        self.futex.fetch_or(LOCKED, Acquire) & LOCKED == 0\n",
    },
    Patch {
        file: MUTEX,
        old: "        if self.futex.compare_exchange(UNLOCKED, LOCKED, Acquire, Relaxed).is_err() {\n",
        new: "        if !self.try_lock() {\n",
    },
    Patch {
        file: TIME,
        old: "use hermit_abi::{self, CLOCK_MONOTONIC, CLOCK_REALTIME};\n",
        new: "use hermit_abi::{self, CLOCK_REALTIME};\n",
    },
    Patch {
        file: TIME,
        old: "        let mut time: Timespec = Timespec::zero();
        let _ = unsafe { hermit_abi::clock_gettime(CLOCK_MONOTONIC, &raw mut time.t) };

        Instant(time)
",
        new: "        // SAFETY: the function has no preconditions.
        Instant(Timespec { t: unsafe { hermit_abi::monotonic_time() } })
",
    },
    // Without hooks there is nothing to run, and the new thread's list is empty already: it need not be
    // dropped at its end.
    Patch {
        file: SPAWN_HOOKS,
        old: "        SPAWN_HOOKS.set(self.hooks);\n",
        new: "        if self.hooks.first.is_none() {
            return;
        }
        SPAWN_HOOKS.set(self.hooks);
",
    },
];
