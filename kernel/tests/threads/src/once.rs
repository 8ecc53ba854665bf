//! One-time initialization runs once, whichever thread comes first, and all threads wait for it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Once, OnceLock};
use std::thread;
use std::time::Duration;

use crate::arguments::Settings;
use crate::support::{cpus, in_threads};

pub(crate) fn once(_: &Settings) {
    let runs = AtomicUsize::new(0);
    let slow = || {
        thread::sleep(Duration::from_millis(10));
        runs.fetch_add(1, Ordering::AcqRel)
    };
    let (once, cell, lazy) = (Once::new(), OnceLock::new(), LazyLock::new(&slow));
    in_threads(cpus() + 6, |_| {
        once.call_once(|| _ = slow());
        assert!(once.is_completed(), "a thread did not wait");
        let first = *cell.get_or_init(&slow);
        assert_eq!(cell.get(), Some(&first), "the value has changed");
        assert_ne!(*lazy, first, "the same run gave two values");
    });
    assert_eq!(runs.load(Ordering::Acquire), 3, "each of three runs once");
}
