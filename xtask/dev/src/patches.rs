//! `cargo xtask patches`: checks the patches of other projects' sources.

mod check;

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
}

pub(crate) fn main(arguments: &Arguments) -> Result<()> {
    match &arguments.action {
        Action::Check => check(),
    }
}
