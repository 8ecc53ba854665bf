//! Crates for what the operating system has.

crate_uses::crate_uses! {
    "async-io": async_io,
    "async-std": async_std,
    "crossterm": crossterm,
    "fs4": fs4,
    "futures-lite": futures_lite,
    "polling": polling,
    "rustix": rustix,
    "signal-hook": signal_hook,
    "smol": smol,
}
