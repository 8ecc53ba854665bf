//! The kernel and the network stack of programs that do not depend on `hermit-sys`.
//!
//! Their objects are members of a library of the target that every program is linked to, so linkers take them if nothing else defines
//! the functions of the ABI. A program with `hermit-sys` has its own, which come first.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::archive;
use super::library;
use super::record::{self, Record};
use super::stamp::{Stamp, State};
use crate::cargo;
use crate::target::{FloatAbi, GUEST_TARGET};
use crate::toolchain::{Toolchain, file_names};

/// Beginning of the name of the library.
const LIBRARY: &str = "libhermit_abi-";

/// Names of the objects.
const OBJECTS: [&str; 2] = ["hermit-kernel.o", "hermit-net.o"];

/// Whether a file of the target is the library, whose size depends on the kernel.
pub(super) fn is_library(file: &Path) -> bool {
    let name = file.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with(LIBRARY) && name.ends_with(".rlib"))
}

/// Compares the installed kernel with what it should be: one that was added to the std that is installed. It may be older than the
/// sources of the kernel; `cargo xtask setup` replaces it.
pub(super) fn state(toolchain: &Toolchain) -> Result<State> {
    let stamp = record::stamp(&toolchain.records(), "default-kernel");
    Ok(Stamp::compare(&stamp, &key(toolchain)?, &libraries(toolchain)))
}

/// Identifies the std to which a kernel was added.
fn key(toolchain: &Toolchain) -> Result<String> {
    let installation = library::installation(toolchain, FloatAbi::Hard)?;
    Ok(installation.trim_end().replace('\n', ", "))
}

/// Builds the objects, unless a program has been built with them, and installs them.
pub(super) fn install(toolchain: &Toolchain, record: &Record) -> Result<()> {
    let key = key(toolchain)?;
    let folder = libraries(toolchain);
    let library = file_names(&folder).into_iter().find(|name| is_library(name));
    let library = library.with_context(|| format!("{} has no {LIBRARY}*.rlib", folder.display()))?;
    let objects = cargo::build_objects()?;
    let read = |file: PathBuf| fs::read(&file).with_context(|| format!("cannot read {}", file.display()));
    let contents: Vec<_> = OBJECTS.iter().map(|name| read(objects.join(name))).collect::<Result<_>>()?;
    let members: Vec<_> = OBJECTS.into_iter().zip(contents.iter().map(Vec::as_slice)).collect();
    let path = folder.join(&library);
    let extended = archive::with_members(&read(path.clone())?, &members)
        .with_context(|| format!("cannot extend {}", path.display()))?;
    // A rename: a linker may be reading the old library.
    let partial = path.with_extension("partial");
    fs::write(&partial, extended)
        .and_then(|()| fs::rename(&partial, &path))
        .with_context(|| format!("cannot install {}", path.display()))?;
    Stamp::of(key, &folder, &[library])?.save(&record.stamp("default-kernel"))
}

fn libraries(toolchain: &Toolchain) -> PathBuf {
    toolchain.target(GUEST_TARGET).join("lib")
}
