//! Checks the kernel's guarantees in `hermit-abi`, above all for functions that std does not use.
//!
//! `abi_calls NAME` prints `ok`, or exits with code 1 and a message. On other systems it checks nothing.

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
