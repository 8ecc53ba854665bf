//! `cargo xtask lint`: formatting, clippy on every target, and the project's own rules.

mod rules;

use std::fs;

use anyhow::{Context, Result, bail};

use crate::build::{BARE_TARGET, GUEST_TARGET};
use crate::{process, workspace};

/// Packages that only exist on a target of their own, and the arguments that select them. Kernel and loader are
/// checked apart: together they would have each other's features.
const ON_TARGETS: [(&str, &[&str]); 3] = [
    (BARE_TARGET, &["--package", "hermit-kernel", "--package", "hermit-hal"]),
    (BARE_TARGET, &["--package", "hermit-loader"]),
    (
        GUEST_TARGET,
        &[
            "--package",
            "hermit-sys",
            "--package",
            "hermit-net",
            "--package",
            "hello_world",
            "--package",
            "faults",
        ],
    ),
];

pub(crate) fn main() -> Result<()> {
    own_rules()?;
    let cargo = || {
        let mut cargo = process::cargo();
        cargo.current_dir(workspace::root());
        cargo
    };
    process::run(cargo().args(["fmt", "--all", "--check"])).context("`cargo fmt --all` mends this")?;
    process::run(cargo().args(["clippy", "--quiet", "--all-targets", "--", "-D", "warnings"]))?;
    for (target, packages) in ON_TARGETS {
        let mut clippy = cargo();
        clippy.args(["clippy", "--quiet", "--target", target]).args(packages);
        process::run(clippy.args(["--", "-D", "warnings"]))?;
    }
    Ok(())
}

/// Checks every Rust file that git knows or would take.
fn own_rules() -> Result<()> {
    let mut git = std::process::Command::new("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard", "*.rs"])
        .current_dir(workspace::root());
    let files = process::output(&mut git)?;
    let mut violations = Vec::new();
    for file in files.lines() {
        // A file that git knows may be deleted in the working tree.
        let Ok(text) = fs::read_to_string(workspace::root().join(file)) else { continue };
        violations.extend(rules::check(file, &text));
    }
    for violation in &violations {
        eprintln!("{violation}");
    }
    if !violations.is_empty() {
        bail!("{} violations of the project's rules", violations.len());
    }
    Ok(())
}
