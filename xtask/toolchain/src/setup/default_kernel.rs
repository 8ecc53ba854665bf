//! The kernel and the network stack of programs that do not depend on `hermit-sys`.
//!
//! Their object files are members of `libhermit_abi`, a library of the target to which every program is
//! linked. A linker takes a member of a library only if the member defines a function that is still
//! undefined. A program with `hermit-sys` has its own kernel, which comes first on the linker's command line
//! and defines all functions of the ABI. So the linker does not take the kernel in `libhermit_abi`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use super::archive;
use super::record::{self, Record};
use super::stamp::{Stamp, State};
use super::tools;
use crate::cargo;
use crate::digest::hex;
use crate::target::{FloatAbi, GUEST_TARGET};
use crate::toolchain::{Toolchain, file_names};

/// Beginning of the name of the library.
const LIBRARY: &str = "libhermit_abi-";

/// Names of the objects.
const OBJECTS: [&str; 2] = ["hermit-kernel.o", "hermit-net.o"];

/// Returns true if a file of the target is the library that contains the kernel. Its size depends on the
/// kernel.
pub(super) fn is_library(file: &Path) -> bool {
    let name = file.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with(LIBRARY) && name.ends_with(".rlib"))
}

/// Compares the installed kernel with its stamp. The kernel is current if two things have not changed since
/// it was installed: the installed std to which it was added, and the sources of the tools that boot it. The
/// kernel may be older than its own sources: only `cargo xtask setup` replaces it then.
pub(super) fn state(toolchain: &Toolchain) -> Result<State> {
    let stamp = record::stamp(&toolchain.records(), "default-kernel");
    if !stamp.is_file() {
        return Ok(State::Missing);
    }
    Ok(Stamp::compare(&stamp, &key(toolchain)?, &libraries(toolchain)))
}

/// Returns a text that identifies the installed std and the tools.
fn key(toolchain: &Toolchain) -> Result<String> {
    let installation = record::installation(toolchain, FloatAbi::Hard)?;
    Ok(format!("{}, tools {}", installation.trim_end().replace('\n', ", "), tools::key(toolchain)?))
}

/// Returns a digest of the library, including the kernel that was added to it.
pub(super) fn digest(toolchain: &Toolchain) -> Result<String> {
    let folder = libraries(toolchain);
    Ok(hex(&Sha256::digest(read(&folder.join(find_library(&folder)?))?)))
}

/// Fails if the library is missing or damaged, so that no kernel can be added to it.
pub(super) fn check_library(toolchain: &Toolchain) -> Result<()> {
    check_library_in(&libraries(toolchain))
}

fn check_library_in(folder: &Path) -> Result<()> {
    let library = folder.join(find_library(folder)?);
    extend(&read(&library)?, &OBJECTS.map(|name| (name, Vec::new())), &library).map(drop)
}

/// Builds the object files and installs them. Returns true if they differ from those installed before.
pub(super) fn install(toolchain: &Toolchain, record: &Record) -> Result<bool> {
    let key = key(toolchain)?;
    let folder = libraries(toolchain);
    let library = find_library(&folder)?;
    let objects = cargo::build_objects()?;
    let object = |name: &'static str| Ok((name, read(&objects.join(name))?));
    let members: Vec<_> = OBJECTS.into_iter().map(object).collect::<Result<_>>()?;
    let path = folder.join(&library);
    let old = read(&path)?;
    let extended = extend(&old, &members, &path)?;
    // The rename is atomic: a linker may be reading the old library.
    let partial = path.with_extension("partial");
    fs::write(&partial, &extended)
        .and_then(|()| fs::rename(&partial, &path))
        .with_context(|| format!("cannot install {}", path.display()))?;
    Stamp::of(key, &folder, &[library])?.save(&record.stamp("default-kernel"))?;
    Ok(extended != old)
}

fn find_library(folder: &Path) -> Result<PathBuf> {
    let library = file_names(folder).into_iter().find(|name| is_library(name));
    library.with_context(|| format!("{} has no {LIBRARY}*.rlib", folder.display()))
}

/// Returns the contents `library` of the file `path`, with these members added.
fn extend(library: &[u8], members: &[(&str, Vec<u8>)], path: &Path) -> Result<Vec<u8>> {
    let members: Vec<_> = members.iter().map(|(name, contents)| (*name, contents.as_slice())).collect();
    archive::with_members(library, &members).with_context(|| format!("cannot extend {}", path.display()))
}

fn read(file: &Path) -> Result<Vec<u8>> {
    fs::read(file).with_context(|| format!("cannot read {}", file.display()))
}

fn libraries(toolchain: &Toolchain) -> PathBuf {
    toolchain.target(GUEST_TARGET).join("lib")
}

#[cfg(test)]
mod tests {
    use super::{check_library_in, extend};
    use std::fs;

    #[test]
    fn damaged_library_is_detected_with_and_without_a_kernel() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("libhermit_abi-1.rlib");
        assert!(check_library_in(folder.path()).is_err());
        let std = extend(b"!<arch>\n", &[("lib.rmeta", vec![1; 8])], &file).unwrap();
        let whole = extend(&std, &[("hermit-kernel.o", vec![2; 8])], &file).unwrap();
        let check = |bytes: &[u8]| {
            fs::write(&file, bytes).unwrap();
            check_library_in(folder.path()).is_ok()
        };
        assert!(check(&std) && check(&whole));
        assert!(check(&whole[..whole.len() - 1]), "what is added is replaced anyway");
        for length in [0, 20, std.len() - 1] {
            assert!(!check(&whole[..length]), "{length} bytes");
        }
    }
}
