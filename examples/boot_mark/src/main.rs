//! Prints the time-stamp counter as it stands when `main` starts.
//!
//! Under QEMU with `-icount shift=0` the counter counts the instructions since reset, so the number is what booting costs;
//! `cargo xtask bench boot` reads it.

#[cfg(target_os = "hermit")]
use hermit_sys as _;

fn main() {
    // SAFETY: every x86-64 processor has the counter, and neither Linux nor our kernel forbids reading it.
    #[expect(unsafe_code, reason = "there is no safe function for the counter")]
    let counter = unsafe { std::arch::x86_64::_rdtsc() };
    println!("counter at main: {counter}");
}
