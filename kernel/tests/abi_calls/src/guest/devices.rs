//! Devices whose interrupts arrive on different CPUs, whether their drivers start when all run or before.

use std::fs;

use hermit_abi::EINVAL;

use super::calls;
use super::raw_thread::{self, NORMAL_PRIORITY};

/// The devices. Each of them must be a disk.
const DISKS: [&str; 2] = ["/dev/vda", "/dev/vdb"];

/// Reads two disks to their ends when all CPUs run.
pub(crate) fn devices() {
    (0..calls::cpus()).for_each(wait_for_cpu);
    read();
}

/// Reads two disks while the first CPU alone runs, and again when all do.
pub(crate) fn devices_first() {
    read();
    devices();
}

fn read() {
    for disk in DISKS {
        let bytes = fs::read(disk).unwrap_or_else(|error| panic!("{disk}: {error}"));
        assert!(!bytes.is_empty(), "{disk} is empty");
    }
}

/// Runs a thread on a CPU, which has started then.
fn wait_for_cpu(number: usize) {
    let core = isize::try_from(number).expect("there are few CPUs");
    let thread = loop {
        match raw_thread::spawn(NORMAL_PRIORITY, core, || ()) {
            // The CPU has not started within the kernel's time limit.
            Err(EINVAL) => {}
            started => break started.expect("no thread was started"),
        }
    };
    assert_eq!(calls::join(thread), Ok(0));
}
