//! The part of `cargo xtask patches check` that needs what set-up does: where sources come from.

use anyhow::{Context, Result};

use super::progress::{Cost, Progress};
use super::record::Record;
use super::{c_library, files, sources, unwinder};
use crate::patches::{MUSL, STD, STD_TESTS};
use crate::toolchain::Toolchain;

/// Applies all patches of std, its tests, its unwinder and musl to copies of the sources.
///
/// # Errors
///
/// Fails if a patch does not apply, or if sources cannot be obtained. The error names the patch or the
/// sources.
pub fn check_patches() -> Result<()> {
    let toolchain = Toolchain::detect()?;
    let record = Record::open(&toolchain)?;
    let work = tempfile::tempdir().context("cannot create a temporary directory")?;
    let progress = Progress::new();
    let task = progress.add("patches", Cost::UNKNOWN);
    let library = work.path().join("library");
    files::copy_dir(&sources::find(&toolchain, &record, work.path(), task)?, &library)?;
    let patches = STD.apply(&library)? + STD_TESTS.apply(&library)?;
    // With the patched manifests of std, which name the unwinder, cargo finds the unwinder's sources.
    unwinder::copy(&toolchain, &library, &work.path().join(unwinder::CRATE))?;
    let of_musl = MUSL.apply(&c_library::unpack(&toolchain, work.path())?)?;
    println!("std and its tests: {patches} patches, unwinding: all, musl: {of_musl}: they apply");
    Ok(())
}
