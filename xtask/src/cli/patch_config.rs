//! `cargo xtask patch-config`: writes a configuration of cargo, so that cargo's own commands in another
//! workspace use patched crates.

use std::path::PathBuf;

use anyhow::Result;
use hermit_toolchain::crates;
use hermit_toolchain::usage::usage_error;

/// Options of `patch-config`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Prints what to add to .cargo/config.toml of the workspace, at its top. Cargo then records patched crates in \
                  Cargo.lock as local packages. Run it again after dependencies have changed."
)]
pub struct Arguments {
    /// Folder of the crate or workspace
    #[arg(value_name = "PATH", default_value = ".")]
    folder: PathBuf,
}

/// Writes the configuration of a workspace for cargo, and prints how to use it.
pub fn main(arguments: &Arguments) -> Result<()> {
    if !arguments.folder.join("Cargo.toml").is_file() {
        return Err(usage_error(format!("there is no Cargo.toml in {}", arguments.folder.display())));
    }
    let configuration = crates::configure_workspace(&arguments.folder)?;
    for warning in &configuration.warnings {
        eprintln!("warning: {warning}");
    }
    let Some(include) = configuration.include else {
        eprintln!("No dependency needs a patch.");
        return Ok(());
    };
    eprintln!("Add this to {}, at its top, before any [section]:\n", configuration.file.display());
    println!("{include}");
    Ok(())
}
