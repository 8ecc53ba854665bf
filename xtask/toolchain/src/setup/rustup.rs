//! Targets that rustup adds to the toolchain.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::record::{Addition, Record};
use crate::process;
use crate::toolchain::Toolchain;

/// Adds a target. If rustup lists the target although its folder is not complete, removes the target first.
pub(super) fn add(
    toolchain: &Toolchain,
    record: &Record,
    target: &'static str,
    is_complete: impl Fn(&Path) -> bool,
) -> Result<()> {
    let folder = toolchain.target(target);
    let rustup =
        |verb| toolchain.rustup(&["target", verb], target).context("rustup does not manage this toolchain");
    let added = Addition::RustupTarget(target);
    // A target that the user installed is not recorded as an addition, even if it must be repaired here.
    let foreign = folder.exists() && !record.has(Addition::Folder(target)) && !record.has(added);
    if folder.exists() && !record.has(Addition::Folder(target)) {
        // rustup reports an error for missing files, but removes the target from its list, so that it can be
        // added.
        let _: Result<()> = process::run_captured(&mut rustup("remove")?);
    }
    // Records the addition only now, after `rustup` was found.
    let mut add = rustup("add")?;
    if !foreign {
        record.add(added)?;
    }
    let mut result = process::run_captured(&mut add);
    if result.is_ok() && !is_complete(&folder) {
        // rustup still lists the target and so did nothing. Removing the target fails for the missing files,
        // but the second `add` then works.
        let _: Result<()> = process::run_captured(&mut rustup("remove")?);
        result = process::run_captured(&mut rustup("add")?);
    }
    let check = || {
        ensure!(is_complete(&folder), "it added the target, but {} is not complete", folder.display());
        Ok(())
    };
    let result = result.and_then(|()| check());
    if result.is_err() {
        record.remove(added)?;
    }
    result
}
