//! `cargo xtask setup`: installs what builds need, and says what to do next.

use anyhow::Result;
use hermit_machines::uhyve::Uhyve;
use hermit_toolchain::setup;
use hermit_toolchain::setup::packages::QEMU;

/// Options of `setup`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Remove from the toolchain, and from cargo's configuration, what setup added
    #[arg(long)]
    remove: bool,
    /// Add the runner, and the flag that lets panics unwind, to cargo's configuration: ~/.cargo/config.toml
    #[arg(long, conflicts_with = "remove")]
    configure: bool,
    /// Install the C library for the target, which otherwise the first program that compiles C does
    #[arg(long, conflicts_with = "remove")]
    c: bool,
}

/// Installs the libraries and tools that builds need, or removes them.
pub fn main(arguments: &Arguments) -> Result<()> {
    if arguments.remove {
        return setup::remove();
    }
    setup::ensure()?;
    // An error is not fatal yet: a read-only toolchain keeps the kernel that it has.
    let kernel = setup::install_kernel();
    provide_machine()?;
    match kernel {
        Ok(()) => eprintln!("Setup is complete."),
        Err(error) => eprintln!(
            "warning: {error:#}\nSetup is complete, but for the kernel of crates that do not depend on hermit-sys."
        ),
    }
    if arguments.c {
        setup::ensure_c()?;
    }
    if arguments.configure {
        return setup::add_configuration();
    }
    setup::explain_configuration()
}

/// Reports how programs run on this host: in uhyve, or else in QEMU, which is installed if need be.
fn provide_machine() -> Result<()> {
    match Uhyve::check(setup::uhyve()?) {
        Ok(uhyve) if uhyve.is_fast => eprintln!("Programs run in uhyve:\n{}", uhyve.report),
        _ => {
            if let Err(error) = QEMU.ensure() {
                eprintln!("warning: {error:#}");
            }
        }
    }
    Ok(())
}
