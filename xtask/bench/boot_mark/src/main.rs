//! Prints the time-stamp counter at the start of `main`.
//!
//! Under QEMU with `-icount shift=0`, the counter counts instructions since reset. So the printed value is
//! the cost of booting, which `cargo xtask bench boot` reads.

#[cfg(target_os = "hermit")]
use hermit_sys as _;

fn main() {
    // SAFETY: RDTSC exists on every x86-64 processor and has no memory effects; CR4.TSD, which would forbid
    // it, is clear on Linux and in the kernel.
    #[expect(unsafe_code, reason = "std has no safe function for the counter")]
    let counter = unsafe { std::arch::x86_64::_rdtsc() };
    println!("counter at main: {counter}");
}
