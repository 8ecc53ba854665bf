//! Tests of the cache of the objects that `hermit-sys` links into programs. An object is built once, and
//! crates, profiles and target folders share it.
//!
//! The tests use a separate cache folder, and need no network.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use anyhow::{Context, Result, ensure};
use hermit_toolchain::process;
use hermit_toolchain::target::GUEST_TARGET;
use tempfile::TempDir;

use super::build_tool::make_crate;
use super::schedule::Tests;

/// Environment variable with the path of the cache folder.
const FOLDER: &str = "HERMIT_OBJECT_CACHE";

/// Maximum number of objects that `hermit-sys` keeps in the cache.
const MAX_OBJECTS: usize = 24;

/// Options of a build that needs another kernel.
const OTHER_FEATURE: [&str; 2] = ["--features", "hermit-sys/round-robin"];

/// Part of cargo's output that shows that `hermit-sys` builds the kernel.
const BUILDS_KERNEL: &str = "Compiling hermit-kernel";

/// Adds the tests.
pub(super) fn test(tests: &mut Tests<'_>) {
    tests.add("build: kernel and network stack are built once for all crates", shared);
}

/// A folder with two crates outside the workspace, a cache folder, and target folders.
#[derive(Debug)]
struct Crates {
    folder: TempDir,
}

impl Crates {
    fn new() -> Result<Self> {
        let folder = TempDir::new().context("cannot make a temporary folder")?;
        let crates = Self { folder };
        for name in ["first", "second"] {
            make_crate(&crates.path(name))?;
        }
        fs::create_dir(crates.cache())?;
        Ok(crates)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn cache(&self) -> PathBuf {
        self.path("cache")
    }

    /// Starts the build of a crate in its own target folder.
    fn start(&self, name: &str, options: &[&str]) -> Result<Child> {
        let mut cargo: Command = process::cargo();
        cargo.current_dir(self.path(name)).env(FOLDER, self.cache()).env_remove("CARGO_TARGET_DIR");
        cargo.args(["build", "--offline", "--target", GUEST_TARGET]).args(options);
        let cargo = cargo.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        cargo.spawn().context("cannot start cargo")
    }

    /// Builds a crate and returns what cargo and `hermit-sys` printed.
    fn build(&self, name: &str, options: &[&str]) -> Result<String> {
        messages(&self.start(name, options)?.wait_with_output()?)
    }

    /// Removes the files of `hermit-sys` from the target folder, and builds again. The files of the kernel
    /// stay, so a build of the kernel does not run the compiler. Returns the messages as [`Self::build`]
    /// does.
    fn build_again(&self, name: &str, options: &[&str]) -> Result<String> {
        let mut cargo = process::cargo();
        cargo.current_dir(self.path(name)).env_remove("CARGO_TARGET_DIR");
        cargo.args(["clean", "--quiet", "--offline", "--package", "hermit-sys", "--target", GUEST_TARGET]);
        process::run(&mut cargo)?;
        self.build(name, options)
    }

    /// Puts more objects into the cache than the cache keeps. No build has used these objects.
    fn add_old_objects(&self) -> Result<()> {
        let mut names = (0..2 * MAX_OBJECTS).map(|number| format!("hermit-old-{number}.o"));
        names.try_for_each(|name| fs::write(self.cache().join(name), "").context("cannot write an object"))
    }

    /// Returns the kernel objects in the cache.
    fn kernels(&self) -> Result<Vec<PathBuf>> {
        objects(&self.cache(), "hermit-kernel-")
    }
}

/// Returns the standard error of a build, which must have succeeded.
fn messages(output: &Output) -> Result<String> {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "the build failed ({})\n{text}", output.status);
    Ok(text)
}

/// Returns the objects in a folder whose names start with a prefix.
fn objects(folder: &Path, prefix: &str) -> Result<Vec<PathBuf>> {
    let files = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    let is_object = |file: &PathBuf| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(prefix) && name.ends_with(".o")
    };
    Ok(files.into_iter().filter(is_object).collect())
}

fn shared() -> Result<()> {
    let crates = Crates::new()?;
    concurrent_builds_share_one_object(&crates)?;
    other_profile_takes_the_object_from_the_cache(&crates)?;
    crates.add_old_objects()?;
    other_feature_makes_another_object(&crates)?;
    old_objects_are_removed(&crates)?;
    damaged_object_is_built_again(&crates)
}

fn concurrent_builds_share_one_object(crates: &Crates) -> Result<()> {
    let builds = [crates.start("first", &[])?, crates.start("second", &[])?];
    let outputs = builds.map(Child::wait_with_output);
    let mut texts = String::new();
    for output in outputs {
        texts.push_str(&messages(&output?)?);
    }
    let built = texts.matches(BUILDS_KERNEL).count();
    ensure!(built == 1, "the kernel was built {built} times\n{texts}");
    ensure!(crates.kernels()?.len() == 1 && objects(&crates.cache(), "hermit-net-")?.len() == 1);
    Ok(())
}

fn other_profile_takes_the_object_from_the_cache(crates: &Crates) -> Result<()> {
    let text = crates.build("second", &["--release"])?;
    ensure!(!text.contains(BUILDS_KERNEL), "the kernel was built again\n{text}");
    let inner = crates.path("second").join("target").join(GUEST_TARGET).join("hermit-sys");
    ensure!(!inner.exists(), "{} exists", inner.display());
    Ok(())
}

fn other_feature_makes_another_object(crates: &Crates) -> Result<()> {
    let text = crates.build("first", &OTHER_FEATURE)?;
    ensure!(text.contains(BUILDS_KERNEL), "the kernel with another policy was not built\n{text}");
    ensure!(crates.kernels()?.len() == 2 && objects(&crates.cache(), "hermit-net-")?.len() == 1);
    Ok(())
}

fn damaged_object_is_built_again(crates: &Crates) -> Result<()> {
    for object in crates.kernels()? {
        let bytes = fs::read(&object)?;
        // The damaged object is written to a new file, because the old file has a hard link in a target
        // folder.
        fs::remove_file(&object)?;
        fs::write(&object, &bytes[..bytes.len() / 2])?;
    }
    let text = crates.build_again("first", &OTHER_FEATURE)?;
    ensure!(text.contains(BUILDS_KERNEL), "a truncated kernel was linked\n{text}");
    let text = crates.build_again("first", &OTHER_FEATURE)?;
    ensure!(!text.contains(BUILDS_KERNEL), "the kernel was not repaired\n{text}");
    Ok(())
}

/// When a build stores an object, it removes the objects that were not used for the longest time.
fn old_objects_are_removed(crates: &Crates) -> Result<()> {
    let count = objects(&crates.cache(), "hermit-")?.len();
    ensure!(count == MAX_OBJECTS, "there are {count} objects");
    // The objects that builds use were used last, so they are kept.
    let text = crates.build("first", &["--release"])?;
    ensure!(!text.contains(BUILDS_KERNEL), "an object in use was removed\n{text}");
    Ok(())
}
