//! Crates for what the operating system has.

mod async_std;
mod crossterm;
mod fs4;
mod rustix;
mod signal_hook;
mod smol;
mod waiting;

use std::process::ExitCode;

fn main() -> ExitCode {
    crate_uses::main(&[
        ("async-io", waiting::async_io),
        ("async-std", async_std::run),
        ("crossterm", crossterm::run),
        ("fs4", fs4::run),
        ("futures-lite", waiting::futures_lite),
        ("polling", waiting::polling),
        ("rustix", rustix::run),
        ("signal-hook", signal_hook::run),
        ("smol", smol::run),
    ])
}
