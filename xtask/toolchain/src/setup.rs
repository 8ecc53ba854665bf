//! `cargo xtask setup`: makes plain `cargo build --target x86_64-unknown-hermit` work on this machine.
//!
//! Set-up compiles std for the target against this repository's `hermit-abi`, and installs it in the folder
//! of the toolchain in which rustup installs its own targets. core and alloc for the kernel's target come
//! from rustup, or else are compiled from the sources. Each installed part has a stamp with a digest of its
//! inputs and the sizes of its files. The stamp is written last; a part that does not match its stamp is made
//! again. Each addition to the toolchain is recorded before it is made, so that `--remove` finds all
//! additions.

mod abort;
mod archive;
mod c_library;
mod configuration;
mod debian;
mod default_kernel;
pub(crate) mod files;
mod library;
mod library_cargo;
mod package_sources;
pub mod packages;
mod patch_check;
pub(crate) mod progress;
mod record;
mod rustup;
pub mod soft_float;
mod sources;
mod stamp;
mod tools;
mod uhyve_library;
mod unwinder;
// Finds the folder in which `hermit-sys` keeps objects if the toolchain is not writable. The code is in the
// build script of `hermit-sys`, which has no dependencies, and is included here by its path.
#[path = "../../../hermit-sys/build/user_cache.rs"]
mod user_cache;

use std::collections::HashSet;
use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use anyhow::{Context, Result, bail};

use crate::target::{BARE_TARGET, FloatAbi, GUEST_TARGET, SOFT_FLOAT_TARGET, UHYVE_TARGET};
use crate::toolchain::Toolchain;
use crate::{cargo, process, workspace};
use progress::{Cost, Progress, Task};
use record::{Addition, Record};
use sources::Sources;
use stamp::State;

pub use files::{copy_dir, list as list_files, remove_dir};
pub use patch_check::check_patches;
pub use tools::{loader, uhyve};

/// Cost of the build of std.
const STD_COST: Cost = Cost {
    seconds: 40.0,
    large: &[
        ("core", 15.0),
        ("std", 7.0),
        ("alloc", 3.0),
        ("compiler_builtins", 3.0),
        ("test", 3.0),
        ("proc_macro", 2.0),
    ],
};

/// Cost of the build of uhyve, without the crates that it shares with the build tool: they are built already.
const UHYVE_COST: Cost = Cost { seconds: 32.0, large: &[("uhyve", 22.0)] };

/// CPU time of the build of kernel, network stack and program, in seconds.
const PROGRAM_SECONDS: f64 = 60.0;

/// Makes sure that everything that builds need is installed. Commands call it first.
pub fn ensure() -> Result<()> {
    let toolchain = Toolchain::detect()?;
    ensure_libraries(&toolchain)?;
    ensure_tools(&toolchain)
}

/// Returns true if uhyve is built for [`UHYVE_TARGET`], the target of its releases. [`ensure`] must run
/// first.
#[must_use]
pub fn has_uhyve_target() -> bool {
    uhyve_library::is_installed()
}

/// Makes sure that programs with C code can be built. [`ensure`] must run first.
///
/// # Errors
///
/// Fails if the host has no C compiler, or if the sources of the C library cannot be downloaded.
pub fn ensure_c() -> Result<()> {
    c_library::ensure(&Toolchain::detect()?).map(drop)
}

/// Provides the C library to a build, if one of the program's `dependencies` compiles C. [`ensure`] must run
/// first. If the library cannot be provided, only prints a warning: the crate's build script may work without
/// the library.
pub(crate) fn configure_c(cargo: &mut Command, dependencies: &HashSet<String>) -> Result<()> {
    if !c_library::USERS.iter().any(|user| dependencies.contains(*user)) {
        return Ok(());
    }
    match c_library::ensure(&Toolchain::detect()?) {
        Ok(variables) => c_library::configure(cargo, &variables),
        Err(error) => eprintln!("warning: there is no C library for the target: {error:#}"),
    }
    Ok(())
}

/// Installs the libraries that `run` needs. In contrast to [`ensure`], this function does not install the
/// tools for crates outside the workspace, so that the first command ends sooner. It only updates tools that
/// are installed.
///
/// If the libraries have to be installed, calls `build` while uhyve is still being built, and returns its
/// result. Otherwise returns `None` and does not call `build`.
pub fn ensure_for_run<T>(build: impl FnOnce() -> Result<T>) -> Result<Option<T>> {
    let toolchain = Toolchain::detect()?;
    let built = ensure_libraries_with(&toolchain, build)?;
    if tools::state(&toolchain)? != State::Missing {
        ensure_tools(&toolchain)?;
    }
    Ok(built)
}

fn ensure_libraries(toolchain: &Toolchain) -> Result<()> {
    ensure_libraries_with(toolchain, || Ok(())).map(drop)
}

/// Installs the libraries and then calls `build`. If the libraries are current, does neither and returns
/// `None`.
fn ensure_libraries_with<T>(toolchain: &Toolchain, build: impl FnOnce() -> Result<T>) -> Result<Option<T>> {
    if libraries_are_current(toolchain)? {
        remove_stale_images(toolchain)?;
        renew_kernel(toolchain)?;
        return Ok(None);
    }
    install_libraries(toolchain, build).map(Some)
}

fn remove_stale_images(toolchain: &Toolchain) -> Result<()> {
    let built = [GUEST_TARGET, BARE_TARGET].map(|target| workspace::target_dir().join(target));
    remove_stale_builds(toolchain, FloatAbi::Hard, &workspace::target_dir(), &built)
}

fn ensure_tools(toolchain: &Toolchain) -> Result<()> {
    if tools::state(toolchain)? != State::Current {
        let record = Record::open(toolchain)?;
        // Another process may have installed the tools while this process waited for the lock.
        let tools = tools::state(toolchain)?;
        if tools != State::Current {
            eprintln!("loader, uhyve and runner: {tools}; building and installing them");
            tools::install(toolchain, &record)?;
        }
    }
    Ok(())
}

/// Installs the kernel of programs without `hermit-sys`, built from this workspace. [`ensure`] must run
/// first.
pub fn install_kernel() -> Result<()> {
    let toolchain = Toolchain::detect()?;
    install_kernel_into(&toolchain, &Record::open(&toolchain)?)
}

/// Sources of std for its tests, and texts that identify the installed std and kernel.
#[derive(Debug)]
pub struct StdSources {
    /// Rust's folder `library`, with the patches of the installed std.
    pub library: PathBuf,
    /// Identifies the installation of std.
    pub installation: String,
    /// Identifies the kernel of programs without `hermit-sys`.
    pub kernel: String,
}

/// Returns texts that identify the installation of std, and the kernel of programs without `hermit-sys`.
/// Callers compare these texts with earlier ones, because cargo does not notice a change of std or kernel.
pub fn identities() -> Result<[String; 2]> {
    let toolchain = Toolchain::detect()?;
    Ok([record::installation(&toolchain, FloatAbi::Hard)?, default_kernel::digest(&toolchain)?])
}

/// Returns the sources of the installed std. [`ensure`] and [`install_kernel`] must run first.
pub fn std_sources() -> Result<StdSources> {
    let toolchain = Toolchain::detect()?;
    let record = Record::open(&toolchain)?;
    let progress = Progress::new();
    let sources = Sources::prepare(&toolchain, &record, progress.add("sources of std", STD_COST))?;
    Ok(StdSources {
        library: sources.library(),
        installation: record::installation(&toolchain, FloatAbi::Hard)?,
        kernel: default_kernel::digest(&toolchain)?,
    })
}

/// Makes sure that programs without `hermit-sys` have a kernel. [`ensure`] must run first.
pub(crate) fn ensure_kernel() -> Result<()> {
    install_kernel_unless(&Toolchain::detect()?, |state| *state == State::Current)
}

/// Installs the kernel of programs without `hermit-sys` again if the installed one belongs to another std or
/// to other tools. Does nothing if no kernel is installed: the first program that needs the kernel installs
/// it.
fn renew_kernel(toolchain: &Toolchain) -> Result<()> {
    install_kernel_unless(toolchain, |state| matches!(state, State::Current | State::Missing))
}

fn install_kernel_unless(toolchain: &Toolchain, is_right: impl Fn(&State) -> bool) -> Result<()> {
    if is_right(&default_kernel::state(toolchain)?) {
        return Ok(());
    }
    let record = Record::open(toolchain)?;
    // Another process may have installed the kernel while this process waited for the lock.
    let state = default_kernel::state(toolchain)?;
    if is_right(&state) {
        return Ok(());
    }
    eprintln!("kernel of crates that do not depend on hermit-sys: {state}; building and installing it");
    install_kernel_into(toolchain, &record)
}

fn install_kernel_into(toolchain: &Toolchain, record: &Record) -> Result<()> {
    if let Err(error) = default_kernel::check_library(toolchain) {
        // The stamp of std does not show the damage: the size of this library changes with the kernel, so it
        // is not in the stamp.
        eprintln!("{error:#}: installing std again");
        record.remove_stamp("std")?;
        install_std(toolchain, record, FloatAbi::Hard, Progress::new().add("std", STD_COST))?;
        remove_stale_images(toolchain)?;
    }
    let had_kernel = default_kernel::state(toolchain)? != State::Missing;
    if default_kernel::install(toolchain, record)? && had_kernel {
        eprintln!(
            "Cargo does not notice the new kernel: run `cargo clean` in crates that do not depend on hermit-sys."
        );
    }
    Ok(())
}

fn libraries_are_current(toolchain: &Toolchain) -> Result<bool> {
    Ok(library::bare_state(toolchain) == State::Current
        && library::std_state(toolchain, FloatAbi::Hard)? == State::Current)
}

/// Installs the libraries that are not current, and then calls `build`. Builds uhyve at the same time.
fn install_libraries<T>(toolchain: &Toolchain, build: impl FnOnce() -> Result<T>) -> Result<T> {
    let progress = Progress::new();
    let std = progress.add("std", STD_COST);
    let uhyve = progress.add("uhyve", UHYVE_COST);
    let cpus = if thread::available_parallelism().is_ok_and(|cpus| cpus > NonZero::<usize>::MIN) {
        2.0
    } else {
        1.0
    };
    progress.note(&format!(
        "setting up {}, once: std for {GUEST_TARGET} and uhyve; with the kernel about {:.0} s on this machine",
        toolchain.sysroot.display(),
        (STD_COST.seconds + UHYVE_COST.seconds + PROGRAM_SECONDS) / cpus
    ));
    progress.add_hidden(PROGRAM_SECONDS);
    uhyve_library::ensure(toolchain, &Record::open(toolchain)?, &progress);
    thread::scope(|scope| {
        let uhyve = scope.spawn(move || cargo::build_uhyve(uhyve, uhyve_library::is_installed()));
        // The record holds the lock of set-up. It is dropped before `build` is called, because `build` may
        // install other parts.
        install_library_parts(toolchain, &Record::open(toolchain)?, std)?;
        remove_stale_images(toolchain)?;
        renew_kernel(toolchain)?;
        let built = progress.beside(build)?;
        uhyve.join().unwrap_or_else(|_| bail!("the build of uhyve panicked"))?;
        Ok(built)
    })
}

fn install_library_parts(toolchain: &Toolchain, record: &Record, task: Task<'_>) -> Result<()> {
    let bare = library::bare_state(toolchain);
    if bare != State::Current {
        task.note(&format!("core and alloc for {BARE_TARGET}: {bare}; downloading them with rustup"));
        library::install_bare(toolchain, record, task)?;
    }
    install_std(toolchain, record, FloatAbi::Hard, task)
}

fn install_std(toolchain: &Toolchain, record: &Record, float: FloatAbi, task: Task<'_>) -> Result<()> {
    let state = library::std_state(toolchain, float)?;
    if state == State::Current {
        return Ok(());
    }
    task.note(&format!("std for {}: {state}", float.target()));
    let sources = Sources::prepare(toolchain, record, task)?;
    library::install_std(toolchain, record, &sources, float, task)?;
    task.note(&format!("std for {} is installed", float.target()));
    Ok(())
}

/// Removes the build output `built` if the libraries that it was built against have been replaced, from this
/// or from another workspace. Cargo does not detect the replacement, and old and new object files are
/// incompatible. A file in `folder` identifies the libraries that the last build used.
fn remove_stale_builds(
    toolchain: &Toolchain,
    float: FloatAbi,
    folder: &Path,
    built: &[PathBuf],
) -> Result<()> {
    let mark = folder.join("hermit-libraries");
    let current = record::installation(toolchain, float)?;
    if fs::read_to_string(&mark).is_ok_and(|text| text == current) {
        return Ok(());
    }
    for built in built {
        remove_dir(built)?;
    }
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(&mark, current))
        .with_context(|| format!("cannot write {}", mark.display()))
}

/// Makes sure that std for soft-float programs is installed. [`ensure`] must run first.
pub(crate) fn ensure_soft_float() -> Result<()> {
    let toolchain = Toolchain::detect()?;
    if library::std_state(&toolchain, FloatAbi::Soft)? != State::Current {
        let record = Record::open(&toolchain)?;
        // Another process may have installed std while this process waited for the lock.
        let progress = Progress::new();
        install_std(&toolchain, &record, FloatAbi::Soft, progress.add("std", STD_COST))?;
    }
    let folder = soft_float::target_dir();
    remove_stale_builds(&toolchain, FloatAbi::Soft, &folder, std::slice::from_ref(&folder))
}

/// Runs [`ensure`] for commands that need QEMU.
pub fn ensure_with_qemu() -> Result<()> {
    ensure()?;
    packages::QEMU.ensure()
}

/// Adds the runner and the flags of programs to the user's configuration of cargo. [`ensure`] must run first.
pub fn add_configuration() -> Result<()> {
    configuration::add(&Toolchain::detect()?)
}

/// Prints the lines that [`add_configuration`] would add.
pub fn explain_configuration() -> Result<()> {
    configuration::explain(&Toolchain::detect()?)
}

/// Removes everything that set-up added to the toolchain. Packages of the host's distribution stay, because
/// other programs may use them by now.
pub fn remove() -> Result<()> {
    let toolchain = Toolchain::detect()?;
    let record = Record::open(&toolchain)?;
    for target in [GUEST_TARGET, SOFT_FLOAT_TARGET, BARE_TARGET] {
        if record.has(Addition::Folder(target)) {
            eprintln!("removing {}", toolchain.target(target).display());
            remove_dir(&toolchain.target(target))?;
        }
    }
    let by_rustup = [
        (Addition::RustupTarget(BARE_TARGET), ["target", "remove"], BARE_TARGET),
        (Addition::RustupTarget(UHYVE_TARGET), ["target", "remove"], UHYVE_TARGET),
        (Addition::RustupComponent(sources::COMPONENT), ["component", "remove"], sources::COMPONENT),
    ];
    for (addition, words, item) in by_rustup {
        if record.has(addition) {
            eprintln!("removing {item} with rustup");
            let rustup = toolchain.rustup(&words, item);
            let mut rustup = rustup.context("rustup, which added a part of it, is no longer installed")?;
            // rustup fails if the user has removed the target or component already. So a failure is only a
            // warning.
            if let Err(error) = process::run_captured(&mut rustup) {
                eprintln!("warning: {error:#}");
            }
        }
    }
    if let Err(error) = configuration::remove(&toolchain) {
        eprintln!("warning: {error:#}");
    }
    Sources::remove()?;
    user_cache::folder().map_or(Ok(()), |folder| remove_dir(&folder))?;
    record.delete()?;
    eprintln!("Setup is undone; packages of the operating system stay installed.");
    Ok(())
}
