//! `cargo xtask setup`: makes plain `cargo build --target x86_64-unknown-hermit` work on this machine.
//!
//! Set-up compiles std for the target against this repository's `hermit-abi` and installs it where rustup installs the targets
//! that it ships; core and alloc for the kernel's target come from rustup, else from the sources. Each part has a stamp, written
//! last, with a digest of its inputs and the sizes of its files; a part that does not match its stamp is made again. Each addition
//! to the toolchain is recorded before it is made, so that `--remove` finds all of them.

mod debian;
mod files;
mod library;
pub mod packages;
mod patches;
mod record;
pub mod soft_float;
mod sources;
mod stamp;
mod tools;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::target::{BARE_TARGET, FloatAbi, GUEST_TARGET, SOFT_FLOAT_TARGET};
use crate::toolchain::Toolchain;
use crate::uhyve::Uhyve;
use crate::{process, workspace};
use record::{Addition, Record};
use sources::Sources;
use stamp::State;

pub(crate) use patches::TEST_LIST;
pub use tools::{loader, uhyve};

/// Name of the folder in the user's cache folder in which `hermit-sys` keeps objects if the toolchain is not writable.
const OBJECTS: &str = "hermit-objects";

/// Options of `setup`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Remove from the toolchain what setup added to it
    #[arg(long)]
    remove: bool,
}

/// Installs the libraries and tools that builds need, or removes them.
pub fn main(arguments: &Arguments) -> Result<()> {
    if arguments.remove {
        return remove();
    }
    ensure()?;
    match Uhyve::check(uhyve()?) {
        Ok(uhyve) if uhyve.is_fast => eprintln!("Programs run in uhyve:\n{}", uhyve.report),
        _ if packages::QEMU.is_installed() => {}
        _ => {
            if let Err(error) = packages::QEMU.ensure() {
                eprintln!("warning: {error:#}");
            }
        }
    }
    eprintln!("Setup is complete.");
    tools::explain(&Toolchain::detect()?);
    Ok(())
}

/// Makes sure that everything that builds need is installed. Commands call it first.
pub fn ensure() -> Result<()> {
    let toolchain = Toolchain::detect()?;
    if !libraries_are_current(&toolchain)? {
        install_libraries(&toolchain, &Record::open(&toolchain)?)?;
    }
    let built = [GUEST_TARGET, BARE_TARGET].map(|target| workspace::target_dir().join(target));
    remove_stale_builds(&toolchain, FloatAbi::Hard, &workspace::target_dir(), &built)?;
    if tools::state(&toolchain)? != State::Current {
        let record = Record::open(&toolchain)?;
        // Another process may have installed them while this one waited for the lock.
        let tools = tools::state(&toolchain)?;
        if tools != State::Current {
            eprintln!("[3/3] loader, uhyve and runner: {tools}");
            tools::install(&toolchain, &record)?;
        }
    }
    Ok(())
}

fn libraries_are_current(toolchain: &Toolchain) -> Result<bool> {
    Ok(library::bare_state(toolchain) == State::Current
        && library::std_state(toolchain, FloatAbi::Hard)? == State::Current)
}

fn install_libraries(toolchain: &Toolchain, record: &Record) -> Result<()> {
    eprintln!("Setting up {} for {GUEST_TARGET}", toolchain.sysroot.display());
    let bare = library::bare_state(toolchain);
    if bare != State::Current {
        eprintln!("[1/3] core and alloc for {BARE_TARGET}: {bare}");
        library::install_bare(toolchain, record)?;
    }
    let std = library::std_state(toolchain, FloatAbi::Hard)?;
    if std != State::Current {
        eprintln!("[2/3] std for {GUEST_TARGET}: {std}; building it takes about a minute");
        let sources = Sources::prepare(toolchain, record)?;
        library::install_std(toolchain, record, &sources, FloatAbi::Hard)?;
    }
    Ok(())
}

/// Removes the build output `built` if the libraries that it was built against have been replaced since, from this or from another
/// workspace: cargo does not detect that, and old and new object files are incompatible. A file in `folder` identifies the libraries.
fn remove_stale_builds(
    toolchain: &Toolchain,
    float: FloatAbi,
    folder: &Path,
    built: &[PathBuf],
) -> Result<()> {
    let mark = folder.join("hermit-libraries");
    let current = library::installation(toolchain, float)?;
    if fs::read_to_string(&mark).is_ok_and(|text| text == current) {
        return Ok(());
    }
    for built in built {
        files::remove_dir(built)?;
    }
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(&mark, current))
        .with_context(|| format!("cannot write {}", mark.display()))
}

/// Makes sure that std for soft-float programs is installed. [`ensure`] has run before.
pub(crate) fn ensure_soft_float() -> Result<()> {
    let toolchain = Toolchain::detect()?;
    let state = || library::std_state(&toolchain, FloatAbi::Soft);
    if state()? != State::Current {
        let record = Record::open(&toolchain)?;
        // Another process may have installed it while this one waited for the lock.
        let state = state()?;
        if state != State::Current {
            eprintln!("std for {SOFT_FLOAT_TARGET}: {state}; building it takes about a minute");
            let sources = Sources::prepare(&toolchain, &record)?;
            library::install_std(&toolchain, &record, &sources, FloatAbi::Soft)?;
        }
    }
    let folder = soft_float::target_dir();
    remove_stale_builds(&toolchain, FloatAbi::Soft, &folder, std::slice::from_ref(&folder))
}

/// As [`ensure`], for commands that need QEMU.
pub fn ensure_with_qemu() -> Result<()> {
    ensure()?;
    packages::QEMU.ensure()
}

/// Returns the user's folder for caches, by the XDG base directory specification.
fn user_cache() -> PathBuf {
    match env::var_os("XDG_CACHE_HOME").map(PathBuf::from) {
        Some(folder) if folder.is_absolute() => folder,
        _ => env::home_dir().unwrap_or_default().join(".cache"),
    }
}

/// Removes from the toolchain what set-up added. Packages of the operating system stay: other programs may use them by now.
fn remove() -> Result<()> {
    let toolchain = Toolchain::detect()?;
    let record = Record::open(&toolchain)?;
    for target in [GUEST_TARGET, SOFT_FLOAT_TARGET, BARE_TARGET] {
        if record.has(Addition::Folder(target)) {
            eprintln!("removing {}", toolchain.target(target).display());
            files::remove_dir(&toolchain.target(target))?;
        }
    }
    let by_rustup = [
        (Addition::RustupTarget(BARE_TARGET), ["target", "remove"], BARE_TARGET),
        (Addition::RustupComponent(sources::COMPONENT), ["component", "remove"], sources::COMPONENT),
    ];
    for (addition, words, item) in by_rustup {
        if record.has(addition) {
            let rustup = toolchain.rustup(&words, item);
            let mut rustup = rustup.context("rustup, which added a part of it, is no longer installed")?;
            // The user may have removed it already; rustup reports that.
            if let Err(error) = process::run(&mut rustup) {
                eprintln!("warning: {error:#}");
            }
        }
    }
    Sources::remove()?;
    files::remove_dir(&user_cache().join(OBJECTS))?;
    record.delete()?;
    eprintln!("Setup is undone; packages of the operating system stay installed.");
    Ok(())
}
