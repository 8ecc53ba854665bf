//! Checks that memory that a guest frees returns to the host.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::child::ChildProcess;

/// Time limit for the return of the memory. On an idle host, the memory returns after two seconds.
const TIMEOUT: Duration = Duration::from_secs(120);

/// First and longest pause between two reads of the resident memory.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// Memory that the guest of [`returns`] uses and frees, in MiB.
pub(super) const SPIKE: u64 = 300;

/// Memory of the machine of the guest of [`returns`].
pub(super) const MACHINE: &str = "384M";

/// Memory in kB that the process of a guest may keep after the guest has freed the memory: page tables, the
/// kernel's tables, code that QEMU has translated. The peak of the resident memory may be lower than expected
/// by the same amount.
const MARGIN: u64 = 12 << 10;

/// Returns the arguments of `kernel/tests/threads` for [`returns`].
pub(super) fn arguments() -> [String; 2] {
    ["touch".to_owned(), SPIKE.to_string()]
}

/// Makes a guest use and free memory, and checks that the memory returns to the host. The guest waits for
/// input before it uses memory, so this function sends input. Then it waits until the resident memory of
/// `process`, the process with the guest's memory, is only a little larger than before. After that, the guest
/// uses the same amount of memory again, and ends.
pub(super) fn returns(guest: &ChildProcess, process: u32) -> Result<()> {
    guest.has_printed(b"started")?;
    let before = kilobytes(process, "VmRSS")?;
    guest.send(b"\n")?;
    guest.has_printed(b"freed")?;
    let peak = kilobytes(process, "VmHWM")?;
    // The margin is necessary because `before` may be too large: meanwhile QEMU frees memory that it used for
    // its own start.
    ensure!(peak + MARGIN >= before + (SPIKE << 10), "the peak is {peak} kB, {before} kB before");
    wait_until_resident(process, "VmRSS", before + before / 5 + MARGIN)?;
    guest.send(b"\n")
}

/// Waits until a field of a process's status is at most `limit` kB.
pub(super) fn wait_until_resident(process: u32, field: &str, limit: u64) -> Result<()> {
    let (start, mut pause) = (Instant::now(), FIRST_PAUSE);
    loop {
        let resident = kilobytes(process, field)?;
        if resident <= limit {
            return Ok(());
        }
        ensure!(start.elapsed() < TIMEOUT, "{resident} kB are resident, more than {limit} kB");
        thread::sleep(pause);
        pause = (2 * pause).min(MAX_PAUSE);
    }
}

/// Returns a field of `/proc/PROCESS/status` in kB.
fn kilobytes(process: u32, field: &str) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    number_behind(&status, &format!("{field}:")).with_context(|| format!("there is no {field}"))
}

/// Returns the number after the first occurrence of the text `before`.
pub(super) fn number_behind(text: &str, before: &str) -> Option<u64> {
    text.split_once(before)?.1.split_whitespace().next()?.parse().ok()
}
