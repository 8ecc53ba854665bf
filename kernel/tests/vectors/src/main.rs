//! Checks that threads keep their vector registers, x87 registers and floating-point control words while they
//! are preempted, migrated and interrupted.
//!
//! `vectors [DISK]` prints what it has seen and `ok`, or exits with code 1 and a message. The disk is read
//! meanwhile. The same source runs on Linux, which does not tell how often a thread was migrated.

#[cfg(target_os = "hermit")]
use hermit_sys as _;

mod arithmetic;
mod control;
mod disturbance;
mod registers;
mod rounds;

use std::env;
use std::process::ExitCode;

fn main() -> ExitCode {
    let disk = env::args().nth(1);
    println!("{}", rounds::run(disk.as_deref()));
    println!("ok");
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::rounds;

    #[test]
    fn linux_keeps_registers_too() {
        println!("{}", rounds::run(None));
    }
}
