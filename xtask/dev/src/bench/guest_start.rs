//! Starts of guests in QEMU: the memory that they need, and the instructions until `main`.

use std::ops::RangeInclusive;

use anyhow::{Context, Result, bail, ensure};
use hermit_interface::memory_size::MemorySize;
use hermit_machines::qemu::{End, Guest, Input};

/// Makes QEMU count instructions as time. The seed determines QEMU's random numbers, and these determine the
/// addresses of the image and its memory. So the number of instructions is the same in each run with the same
/// seed.
pub(crate) fn counting(guest: Guest, seed: usize) -> Guest {
    // With `sleep=off`, virtual time jumps to the next timer while the guest waits. By default, the
    // time-stamp counter would follow the host's clock meanwhile, and the count would depend on the load of
    // the host.
    guest.with_options(&["-icount", "shift=0,sleep=off", "-seed", &seed.to_string()])
}

/// Runs a guest, and returns its output. Fails if the exit status is not 0.
pub(crate) fn run(guest: &Guest) -> Result<String> {
    let (end, output) = guest.capture(Input::Bytes(Vec::new()))?;
    let text = String::from_utf8_lossy(&output).into_owned();
    ensure!(end == End::Exited(0), "the guest ended with {end:?}:\n{text}");
    Ok(text)
}

/// Returns the number of instructions from reset to `main`. The guest must run `boot_mark`, which prints the
/// number, and [count instructions](counting).
pub(crate) fn instructions(guest: &Guest) -> Result<u64> {
    let output = run(guest)?;
    let number = output.lines().find_map(|line| line.strip_prefix("counter at main: "));
    number.context("boot_mark printed no number")?.trim().parse().context("boot_mark printed no number")
}

/// Returns the smallest memory in MiB, among `sizes`, with which a guest works according to `works`.
pub(crate) fn least_memory_mib(
    sizes: RangeInclusive<u32>,
    works: impl Fn(MemorySize) -> Result<bool>,
) -> Result<u32> {
    let max = *sizes.end();
    for mebibytes in sizes {
        if works(MemorySize::unchecked_mebibytes(mebibytes.into()))? {
            return Ok(mebibytes);
        }
    }
    bail!("the guest does not work with {max} MiB")
}

/// Returns true if a guest exits with status 0. With too little memory it fails.
pub(crate) fn exits_with_0(guest: &Guest) -> bool {
    matches!(guest.capture(Input::Bytes(Vec::new())), Ok((End::Exited(0), _)))
}
