//! Facts of the system: where it is not supported, there are none.

use sysinfo::{IS_SUPPORTED_SYSTEM, System};

pub fn run() -> crate_uses::Result {
    let mut system = System::new_all();
    system.refresh_all();
    if IS_SUPPORTED_SYSTEM {
        crate_uses::ensure(system.total_memory() > 0 && !system.cpus().is_empty(), "no facts")?;
    } else {
        crate_uses::ensure(system.total_memory() == 0 && system.cpus().is_empty(), "facts")?;
    }
    println!("{}", System::name().is_none_or(|name| !name.is_empty()));
    Ok(())
}
