//! The C library of the target, and compilers that use it, for crates that compile C.
//!
//! The library is musl, compiled from its sources. Our own code (`c_library` beside `src`) replaces the parts
//! of musl that depend on Linux, and calls the kernel. The objects are members of a library of the target to
//! which every program is linked. Rust's own functions with the same names precede them there, so linkers
//! take from the C library only functions that are still undefined. The library is made when a program first
//! needs it, or by `cargo xtask setup --c`.

mod compiler;
mod musl;

use std::env;
use std::fs;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use sha2::{Digest, Sha256};

use super::record::{self, Record};
use super::stamp::{Stamp, State};
use super::{archive, debian, files};
use crate::digest::{self, hex};
use crate::target::{FloatAbi, GUEST_TARGET};
use crate::toolchain::{Toolchain, file_names};
use crate::{process, workspace};
use compiler::Compilers;

/// Names of crates with which build scripts compile C. A program that depends on one of them needs the
/// library.
pub(crate) const USERS: [&str; 2] = ["cc", "cmake"];

/// Environment variable with the path of an archive of musl's sources, for hosts that cannot reach a Debian
/// mirror.
const ARCHIVE_VARIABLE: &str = "HERMIT_MUSL";

/// Beginning of the name of Rust's library to which the objects are added. This library has some functions of
/// C itself, and linkers find those first.
const LIBRARY: &str = "libcompiler_builtins-";

/// Name of the first object. The names of the others contain their number.
const FIRST: &str = "hermit-c.o";

/// Empty libraries that are installed because build scripts name them. As on other systems with musl, the C
/// library has their functions. The library of C++ is empty because there is no C++ standard library.
const EMPTY_LIBRARIES: [&str; 7] =
    ["libc.a", "libm.a", "libpthread.a", "libdl.a", "librt.a", "libutil.a", "libstdc++.a"];

/// Returns true if a file of the target is the library to which the objects are added. Its size depends on
/// the C library.
pub(super) fn is_library(file: &Path) -> bool {
    let name = file.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with(LIBRARY) && name.ends_with(".rlib"))
}

/// Returns the folder of the headers, the compilers and the archive of the sources.
fn folder(toolchain: &Toolchain) -> PathBuf {
    toolchain.target(GUEST_TARGET).join("c")
}

fn own_sources() -> PathBuf {
    workspace::root().join("xtask/toolchain/c_library")
}

/// Returns a digest that identifies the std to which the objects are added, the compiler and the sources.
fn key(toolchain: &Toolchain, compilers: &Compilers) -> Result<String> {
    let mut hash = Sha256::new();
    digest::add_directory(&mut hash, &own_sources())?;
    hash.update(format!("{}\n{}\n", musl::selection()?, compilers.identity));
    hash.update(record::installation(toolchain, FloatAbi::Hard)?);
    hash.update(compiler::flags());
    Ok(hex(&hash.finalize()))
}

fn state(toolchain: &Toolchain, key: &str) -> State {
    let stamp = record::stamp(&toolchain.records(), "c-library");
    Stamp::compare(&stamp, key, &toolchain.target(GUEST_TARGET))
}

/// Makes sure that the library is installed, and returns the environment variables that cargo's commands
/// need. [`super::ensure`] must run first.
pub(crate) fn ensure(toolchain: &Toolchain) -> Result<Vec<(&'static str, PathBuf)>> {
    let compilers = Compilers::find()?;
    let key = key(toolchain, &compilers)?;
    if state(toolchain, &key) != State::Current {
        let record = Record::open(toolchain)?;
        // Another process may have installed the library while this process waited for the lock.
        let state = state(toolchain, &key);
        if state != State::Current {
            eprintln!("C library for {GUEST_TARGET}: {state}; compiling musl {}", musl::VERSION);
            install(toolchain, &record, &compilers, key)?;
        }
    }
    Ok(variables(toolchain))
}

/// Returns the environment variables by which the crate `cc` finds the compilers.
fn variables(toolchain: &Toolchain) -> Vec<(&'static str, PathBuf)> {
    let bin = folder(toolchain).join("bin");
    vec![
        ("CC_x86_64_unknown_hermit", bin.join(compiler::CC)),
        ("CXX_x86_64_unknown_hermit", bin.join(compiler::CXX)),
        ("FC_x86_64_unknown_hermit", bin.join(compiler::FORTRAN)),
        ("AR_x86_64_unknown_hermit", PathBuf::from("ar")),
    ]
}

/// Returns the variables if the library is installed, otherwise nothing.
pub(super) fn installed(toolchain: &Toolchain) -> Vec<(&'static str, PathBuf)> {
    let is_installed = record::stamp(&toolchain.records(), "c-library").is_file();
    if is_installed { variables(toolchain) } else { Vec::new() }
}

/// Adds the variables to a build, except variables that the user has set.
pub(crate) fn configure(cargo: &mut Command, variables: &[(&'static str, PathBuf)]) {
    for (name, value) in variables {
        let with_hyphens = name.replace("x86_64_unknown_hermit", GUEST_TARGET);
        if env::var_os(name).is_none() && env::var_os(with_hyphens).is_none() {
            cargo.env(name, value);
        }
    }
}

fn install(toolchain: &Toolchain, record: &Record, compilers: &Compilers, key: String) -> Result<()> {
    let place = folder(toolchain);
    let work = tempfile::tempdir().context("cannot create a temporary folder")?;
    let sources = unpack(toolchain, work.path())?;
    musl::prepare(&sources)?;
    let objects = compile(compilers, &sources, work.path())?;
    files::remove_dir(&place.join("include"))?;
    musl::install_headers(&sources, &place.join("include"))?;
    compilers.install(&place.join("bin"), &place.join("include"))?;
    let target = toolchain.target(GUEST_TARGET);
    for name in EMPTY_LIBRARIES {
        let path = target.join("lib").join(name);
        fs::write(&path, archive::EMPTY).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let library = add(&target.join("lib"), &objects)?;
    release_std(record, &library)?;
    let mut installed: Vec<_> = EMPTY_LIBRARIES.iter().map(|name| Path::new("lib").join(name)).collect();
    installed.extend([Path::new("lib").join(library), Path::new("c/bin").join(compiler::CC)]);
    Stamp::of(key, &target, &installed)?.save(&record.stamp("c-library"))?;
    eprintln!("C library for {GUEST_TARGET}: installed");
    Ok(())
}

/// Unpacks musl's unpatched sources below `work` and returns their folder.
pub(super) fn unpack(toolchain: &Toolchain, work: &Path) -> Result<PathBuf> {
    let archive = folder(toolchain).join(format!("musl-{}.tar.gz", musl::VERSION));
    fetch(&archive, work)?;
    process::run(Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(work))?;
    Ok(work.join(format!("musl-{}", musl::VERSION)))
}

/// Provides the archive of musl's sources at `place`.
fn fetch(place: &Path, work: &Path) -> Result<()> {
    let is_right =
        |path: &Path| fs::read(path).is_ok_and(|bytes| hex(&Sha256::digest(bytes)) == musl::DIGEST);
    if is_right(place) {
        return Ok(());
    }
    let file = match env::var_os(ARCHIVE_VARIABLE) {
        Some(file) => PathBuf::from(file),
        None => debian::download_sources("musl", &format!("musl_{}.orig.tar.gz", musl::VERSION), work)
            .with_context(|| {
                format!("download musl-{0}.tar.gz, and set {ARCHIVE_VARIABLE} to its path", musl::VERSION)
            })?,
    };
    ensure!(is_right(&file), "{} is not musl {} as it was published", file.display(), musl::VERSION);
    files::copy(&file, place)
}

/// Compiles our sources and musl's in `sources`. Returns the objects, ours first.
fn compile(compilers: &Compilers, sources: &Path, work: &Path) -> Result<Vec<PathBuf>> {
    let own = files::list(&own_sources())?.into_iter().map(|file| own_sources().join(file));
    let is_source = |path: &PathBuf| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        extension == Some("c") || (extension == Some("cpp") && compilers.has_cxx())
    };
    let mut all: Vec<_> = own.filter(is_source).collect();
    all.extend(musl::sources(sources)?);
    let folders = ["arch/x86_64", "arch/generic", "src/include", "src/internal", "obj/include", "include"];
    let mut includes = vec![own_sources()];
    includes.extend(folders.map(|folder| sources.join(folder)));
    let objects = work.join("objects");
    fs::create_dir(&objects).context("cannot create a folder for objects")?;
    let count = all.len();
    compilers.compile(&all, &includes, &objects, |done| {
        if done * 4 / count != (done - 1) * 4 / count && done < count {
            eprintln!("      {done} of {count} files");
        }
    })
}

/// Adds objects to the library in `folder`, and removes those of an earlier call. Returns the library's name.
fn add(folder: &Path, objects: &[PathBuf]) -> Result<PathBuf> {
    let library = file_names(folder).into_iter().find(|name| is_library(name));
    let library = library.with_context(|| format!("{} has no {LIBRARY}*.rlib", folder.display()))?;
    let path = folder.join(&library);
    let read = |path: &Path| fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    let contents: Vec<_> = objects.iter().map(|object| read(object)).collect::<Result<_>>()?;
    let names: Vec<_> = (0..contents.len())
        .map(|index| if index == 0 { FIRST.to_owned() } else { format!("c-{index}.o") })
        .collect();
    let members: Vec<_> = names.iter().map(String::as_str).zip(contents.iter().map(Vec::as_slice)).collect();
    let extended = archive::with_members(&read(&path)?, &members)
        .with_context(|| format!("cannot extend {}", path.display()))?;
    // The rename is atomic: a linker may be reading the old library.
    let partial = path.with_extension("partial");
    fs::write(&partial, extended)
        .and_then(|()| fs::rename(&partial, &path))
        .with_context(|| format!("cannot install {}", path.display()))?;
    Ok(library)
}

/// Removes the library from the stamp of std. Earlier versions of this tool wrote the library's size into the
/// stamp, and the size has changed now. The time of the stamp stays, because it identifies the installation.
fn release_std(record: &Record, library: &Path) -> Result<()> {
    let stamp = record.stamp(record::std_part(FloatAbi::Hard));
    let failed = || format!("cannot change {}", stamp.display());
    let text = fs::read_to_string(&stamp).with_context(failed)?;
    let ending = format!(" lib/{}", library.display());
    let kept: String =
        text.split_inclusive('\n').filter(|line| !line.trim_end().ends_with(&ending)).collect();
    if kept == text {
        return Ok(());
    }
    let time = fs::metadata(&stamp).and_then(|data| data.modified()).with_context(failed)?;
    let partial = stamp.with_extension("partial");
    fs::write(&partial, kept)
        .and_then(|()| File::options().write(true).open(&partial)?.set_modified(time))
        .and_then(|()| fs::rename(&partial, &stamp))
        .with_context(failed)
}
