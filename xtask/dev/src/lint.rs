//! `cargo xtask lint`: formatting, clippy on every target, and the project's own rules.
//!
//! There are three kinds of checks. Checks of text need no compiler: they read Rust files, documents and
//! manifests, and check the rules for comments and unsafe code, words, commands in documents, and generated
//! tables. They run first, because they are quick. Then follow `cargo fmt` and clippy. Clippy runs once for
//! each target, and separately for packages whose features cargo would otherwise unify. The last check runs
//! clippy on the kernel once more, and reports allocations that would end the machine if there is no memory
//! (module `allocations`).

mod allocations;
mod commands;
mod compiler;
mod crate_table;
mod documents;
mod layers;
mod opened_paths;
mod rules;
mod scan;
mod sentences;
mod unsafe_code;
mod words;
mod x86_names;

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};
use hermit_toolchain::target::{BARE_TARGET, GUEST_TARGET};
use hermit_toolchain::{process, setup, workspace};

use crate::{compatibility, figures};

pub(crate) use compiler::compile_with_clippy;

/// Packages that one run of clippy checks.
#[derive(Debug)]
struct Selection {
    /// The target. `None` means the host's target.
    target: Option<&'static str>,
    /// The packages. An empty list means the workspace's default members.
    packages: &'static [&'static str],
    features: Option<&'static str>,
}

/// The default members of the workspace.
const DEFAULT_MEMBERS: Selection = Selection { target: None, packages: &[], features: None };

/// Packages that are not default members of the workspace, because their dependencies take long to compile.
pub(crate) const LONG_PACKAGES: [&str; 6] =
    ["http_client", "idle_latency", "soak", "static_files", "third_party", "web"];

const LONG: Selection = Selection { target: None, packages: &LONG_PACKAGES, features: None };

/// Packages that clippy checks in addition to the default members. Separate commands check the kernel and the
/// loader: in one command, cargo would unify their features.
const OTHERS: [Selection; 6] = [
    Selection { target: Some(BARE_TARGET), packages: &["hermit-kernel", "hermit-hal"], features: None },
    Selection {
        target: Some(BARE_TARGET),
        packages: &["hermit-kernel", "hermit-hal"],
        features: Some("hermit-kernel/soft-float"),
    },
    Selection {
        target: Some(BARE_TARGET),
        packages: &["hermit-kernel", "hermit-hal"],
        features: Some("hermit-kernel/bump"),
    },
    Selection {
        target: Some(BARE_TARGET),
        packages: &["hermit-kernel", "hermit-hal"],
        features: Some("hermit-kernel/tlsf"),
    },
    Selection { target: Some(BARE_TARGET), packages: &["hermit-loader"], features: None },
    // Packages with code that only this target has. All other code of programs is checked for the host's
    // target.
    Selection {
        target: Some(GUEST_TARGET),
        packages: &["hermit-sys", "hermit-net", "abi_calls", "heap_scaling", "net_calls", "threads"],
        features: None,
    },
];

/// Overrides the workspace's flag `-Cpanic=unwind`, which rustc refuses for crates without std. The network
/// stack is built with this override, too.
const ABORT: &str = r#"target.x86_64-unknown-hermit.rustflags=["-Cpanic=abort"]"#;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Only print which crates use unsafe code, and their share of the kernel
    #[arg(long = "unsafe")]
    measure_unsafe: bool,
    /// Check only the rules that need no compiler: files, words, documents
    #[arg(long, conflicts_with = "measure_unsafe")]
    text: bool,
}

/// Runs the checks, or measures the unsafe code if the command line has `--unsafe`.
pub(crate) fn main(arguments: &Arguments) -> Result<()> {
    if arguments.measure_unsafe {
        print!("{}", unsafe_code::report(&list("*Cargo.toml")?, &rust_files()?));
        return Ok(());
    }
    if arguments.text {
        return check_text();
    }
    check(setup::ensure)
}

/// Runs all checks except clippy on the default members and [`LONG_PACKAGES`]. `cargo xtask test` compiles
/// these packages [with clippy](compile_with_clippy) at the same time.
pub(crate) fn check_beside_default_members(set_up: impl FnOnce() -> Result<()>) -> Result<()> {
    check_text_and_format()?;
    check_others(set_up)
}

/// Runs all checks. Calls `set_up` to install the libraries of other targets, after the checks that do not
/// need them.
pub(crate) fn check(set_up: impl FnOnce() -> Result<()>) -> Result<()> {
    check_text_and_format()?;
    clippy(&DEFAULT_MEMBERS)?;
    clippy(&LONG)?;
    check_others(set_up)
}

fn check_text_and_format() -> Result<()> {
    check_text()?;
    let mut cargo = process::cargo();
    cargo.current_dir(workspace::root()).args(["fmt", "--all", "--check"]);
    process::run(&mut cargo).context("`cargo fmt --all` mends this")?;
    let mut cargo = process::cargo();
    cargo.current_dir(workspace::root().join(compatibility::FOLDER)).args(["fmt", "--all", "--check"]);
    process::run(&mut cargo)
        .with_context(|| format!("`cargo fmt --all` in {} mends this", compatibility::FOLDER))
}

/// Runs clippy on [`OTHERS`], and then checks the kernel's allocations. Calls `set_up` first to install the
/// libraries of the targets.
fn check_others(set_up: impl FnOnce() -> Result<()>) -> Result<()> {
    set_up()?;
    OTHERS.iter().try_for_each(clippy)?;
    allocations::check()
}

/// Runs clippy. Warnings are errors.
fn clippy(selection: &Selection) -> Result<()> {
    let mut cargo = process::cargo();
    cargo.current_dir(workspace::root()).args(["clippy", "--quiet"]);
    if selection.target.is_none() {
        cargo.arg("--all-targets");
    }
    cargo.args(selection.packages.iter().flat_map(|package| ["--package", package]));
    cargo.args(selection.target.iter().flat_map(|target| ["--target", target]));
    cargo.args(selection.features.iter().flat_map(|features| ["--features", features]));
    if selection.target == Some(GUEST_TARGET) {
        cargo.args(["--config", ABORT]);
    }
    process::run(cargo.args(["--", "-D", "warnings"]))
}

/// Checks every Rust file, document and manifest against the project's rules and its list of words.
pub(crate) fn check_text() -> Result<()> {
    let (rust, documents, manifests) = (rust_files()?, text_files("*.md")?, text_files("*Cargo.toml")?);
    let glossary = documents.iter().find(|(file, _)| file == words::GLOSSARY);
    let (_, glossary) = glossary.with_context(|| format!("{} is missing", words::GLOSSARY))?;
    let banned = words::banned(glossary);
    let in_rust = rust.iter().flat_map(|(file, text)| {
        let (general, x86) = (rules::check(file, text), x86_names::check(file, text));
        general
            .into_iter()
            .chain(x86)
            .chain(opened_paths::check(file, text))
            .chain(layers::check(file, text))
            .chain(sentences::check(file, text))
    });
    let mut violations: Vec<String> = in_rust.map(|found| found.to_string()).collect();
    let root = workspace::root();
    let in_documents = documents.iter().flat_map(|(file, text)| documents::check(root, file, text));
    violations.extend(in_documents.map(|found| found.to_string()));
    let definitions = commands::Definitions::new(&manifests)?;
    let of_commands = documents.iter().flat_map(|(file, text)| commands::check(file, text, &definitions));
    violations.extend(of_commands.map(|found| found.to_string()));
    let architecture = documents.iter().find(|(file, _)| file == crate_table::DOCUMENT);
    let (_, architecture) = architecture.with_context(|| format!("{} is missing", crate_table::DOCUMENT))?;
    violations.extend(crate_table::check(architecture, &manifests).iter().map(ToString::to_string));
    let all = rust.iter().chain(&documents).chain(&manifests);
    let in_all = all.flat_map(|(file, text)| words::check(file, text, &banned));
    violations.extend(in_all.map(|found| found.to_string()));
    for violation in &violations {
        eprintln!("{violation}");
    }
    if !violations.is_empty() {
        bail!("{} violations of the project's rules", violations.len());
    }
    figures::check()
}

/// Returns the paths and contents of all Rust files.
fn rust_files() -> Result<Vec<(String, String)>> {
    text_files("*.rs")
}

/// Returns the paths and contents of the files that match a pattern.
fn text_files(pattern: &str) -> Result<Vec<(String, String)>> {
    let files = list(pattern)?.into_iter();
    // Skips tracked files that are deleted in the working tree.
    let read = |file: String| fs::read_to_string(workspace::root().join(&file)).ok().map(|text| (file, text));
    Ok(files.filter_map(read).collect())
}

/// Lists the files that match a pattern and that git does not ignore, tracked or not.
fn list(pattern: &str) -> Result<Vec<String>> {
    let mut git = Command::new("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard", pattern])
        .current_dir(workspace::root());
    Ok(process::output(&mut git)?.lines().map(str::to_owned).collect())
}
