//! `cargo xtask patches`: checks and adapts the patches of other projects' sources.

mod check;
mod refresh;

use anyhow::Result;
use clap::Subcommand;

pub(crate) use check::check;

/// Arguments of `cargo xtask patches`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Apply all patches to the pinned sources of std, its tests, its unwinder, the C library and crates
    Check,
    /// Apply patches to another version, print the hunks that do not fit, and save the corrected patch
    Refresh(refresh::Arguments),
}

pub(crate) fn main(arguments: &Arguments) -> Result<()> {
    match &arguments.action {
        Action::Check => check(),
        Action::Refresh(arguments) => refresh::main(arguments),
    }
}
