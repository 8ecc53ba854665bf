//! Memory that a guest frees returns to the host.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::child::ChildProcess;

/// Limit of the time until the memory has returned. It returns after two seconds on a host that does nothing
/// else.
const TIMEOUT: Duration = Duration::from_secs(120);

/// First and longest pause between two looks at the resident memory.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// Memory that the guest of [`returns`] uses and frees, in MiB.
pub(super) const SPIKE: u64 = 300;

/// Memory of its machine.
pub(super) const MACHINE: &str = "384M";

/// Memory in kB that the process of a guest may keep after a spike: page tables, the kernel's tables, code
/// that QEMU has translated. The peak may be lower by as much.
const MARGIN: u64 = 12 << 10;

/// Arguments of `kernel/tests/threads` for [`returns`].
pub(super) fn arguments() -> [String; 2] {
    ["touch".to_owned(), SPIKE.to_string()]
}

/// Sends input to a guest, which waits for that to use and free memory. Then waits until `process`, which has
/// the guest's memory, has little more of it resident than before. Then the guest uses as much again, and
/// ends.
pub(super) fn returns(guest: &ChildProcess, process: u32) -> Result<()> {
    guest.has_printed(b"started")?;
    let before = kilobytes(process, "VmRSS")?;
    guest.send(b"\n")?;
    guest.has_printed(b"freed")?;
    let peak = kilobytes(process, "VmHWM")?;
    // QEMU frees memory of its own start meanwhile: `before` may be too large.
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

/// A field of `/proc/PROCESS/status` in kB.
fn kilobytes(process: u32, field: &str) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    number_behind(&status, &format!("{field}:")).with_context(|| format!("there is no {field}"))
}

/// The number after the first occurrence of a text.
pub(super) fn number_behind(text: &str, before: &str) -> Option<u64> {
    text.split_once(before)?.1.split_whitespace().next()?.parse().ok()
}
