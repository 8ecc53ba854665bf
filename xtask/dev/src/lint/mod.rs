//! `cargo xtask lint`: formatting, clippy on every target, and the project's own rules.

mod rules;
mod scan;
mod unsafe_code;

use std::fs;

use anyhow::{Context, Result, bail};

use xtask::target::{BARE_TARGET, GUEST_TARGET};
use xtask::{process, setup, workspace};

/// Packages that only exist on a target of their own, and the arguments that select them. Kernel and loader are
/// checked apart: together they would have each other's features.
const ON_TARGETS: [(&str, &[&str]); 4] = [
    (BARE_TARGET, &["--package", "hermit-kernel", "--package", "hermit-hal"]),
    (
        BARE_TARGET,
        &["--package", "hermit-kernel", "--package", "hermit-hal", "--features", "hermit-kernel/soft-float"],
    ),
    (BARE_TARGET, &["--package", "hermit-loader"]),
    (
        GUEST_TARGET,
        &[
            "--package",
            "hermit-sys",
            "--package",
            "hermit-net",
            "--package",
            "abi_calls",
            "--package",
            "hello_world",
            "--package",
            "faults",
            "--package",
            "core_bench",
            "--package",
            "heap_scaling",
            "--package",
            "http_client",
            "--package",
            "httpd",
            "--package",
            "net_bench",
            "--package",
            "net_calls",
            "--package",
            "poll_server",
            "--package",
            "third_party",
            "--package",
            "threads",
            "--package",
            "udp_echo",
            "--package",
            "web",
        ],
    ),
];

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Check nothing; print which crates use unsafe code and what share of the kernel they are
    #[arg(long = "unsafe")]
    measure_unsafe: bool,
}

/// Does what the command line asks for.
pub(crate) fn main(arguments: &Arguments) -> Result<()> {
    if arguments.measure_unsafe {
        print!("{}", unsafe_code::report(&known("*Cargo.toml")?, &known_rust()?));
        return Ok(());
    }
    setup::ensure()?;
    check()
}

/// Makes all checks.
pub(crate) fn check() -> Result<()> {
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

/// Checks every Rust file.
fn own_rules() -> Result<()> {
    let files = known_rust()?;
    let violations: Vec<_> = files.iter().flat_map(|(file, text)| rules::check(file, text)).collect();
    for violation in &violations {
        eprintln!("{violation}");
    }
    if !violations.is_empty() {
        bail!("{} violations of the project's rules", violations.len());
    }
    Ok(())
}

/// Every Rust file with its content.
fn known_rust() -> Result<Vec<(String, String)>> {
    let files = known("*.rs")?.into_iter();
    // A file that git knows may be deleted in the working tree.
    let read = |file: String| fs::read_to_string(workspace::root().join(&file)).ok().map(|text| (file, text));
    Ok(files.filter_map(read).collect())
}

/// The files of this kind that git knows or would take.
fn known(pattern: &str) -> Result<Vec<String>> {
    let mut git = std::process::Command::new("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard", pattern])
        .current_dir(workspace::root());
    Ok(process::output(&mut git)?.lines().map(str::to_owned).collect())
}
