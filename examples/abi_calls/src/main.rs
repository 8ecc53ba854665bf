//! Checks what the kernel promises in `hermit-abi`, above all where std does not reach.
//!
//! `abi_calls NAME` ends with `ok`, or with exit code 1 and a message. Elsewhere than on the kernel it does nothing.

#[cfg(target_os = "hermit")]
mod guest;

#[cfg(target_os = "hermit")]
fn main() -> std::process::ExitCode {
    guest::main()
}

#[cfg(not(target_os = "hermit"))]
fn main() {
    println!("this program calls the hermit kernel, which is not here: nothing is checked");
}
