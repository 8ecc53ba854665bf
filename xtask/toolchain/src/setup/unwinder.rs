//! Makes a patched copy of the crate `unwinding`, with which std unwinds. The copy is beside the copy of
//! std's sources.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::files;
use super::library_cargo;
use crate::patches::UNWINDING;
use crate::process;
use crate::target::GUEST_TARGET;
use crate::toolchain::Toolchain;

/// Name of the crate, and of the folder of its copy.
pub(super) const CRATE: &str = "unwinding";

/// Makes the patched copy at `copy`.
///
/// `library` is the copy of std's sources. Its lock file determines the version of the crate.
pub(super) fn copy(toolchain: &Toolchain, library: &Path, copy: &Path) -> Result<()> {
    files::copy_dir(&published(toolchain, library)?, copy)?;
    UNWINDING.apply(copy).map(drop)
}

/// Returns the folder of the unpatched sources. If they are missing, cargo downloads them with the other
/// dependencies of std.
fn published(toolchain: &Toolchain, library: &Path) -> Result<PathBuf> {
    let mut cargo = library_cargo::command(toolchain, &[]);
    cargo.args(["metadata", "--locked", "--format-version=1", "--filter-platform", GUEST_TARGET]);
    cargo.arg("--manifest-path").arg(library.join("std/Cargo.toml")).current_dir(library);
    let metadata = process::output(&mut cargo).context(
        "cannot query the dependencies of std; if a download failed: they come from crates.io, which must be reachable once",
    )?;
    folder_of(CRATE, &metadata)
}

/// Returns the folder of a package in cargo's metadata.
fn folder_of(name: &str, metadata: &str) -> Result<PathBuf> {
    let metadata: Value = serde_json::from_str(metadata).context("cannot understand cargo's metadata")?;
    let mut packages = metadata["packages"].as_array().into_iter().flatten();
    let manifest =
        packages.find(|package| package["name"] == name).and_then(|found| found["manifest_path"].as_str());
    let Some(folder) = manifest.and_then(|manifest| Path::new(manifest).parent()) else {
        bail!("std does not use the crate {name}: this version of Rust is not supported");
    };
    Ok(folder.to_owned())
}

#[cfg(test)]
mod tests {
    use super::folder_of;
    use std::path::Path;

    #[test]
    fn folder_is_that_of_the_named_package() {
        let metadata = r#"{"packages": [{"name": "gimli", "manifest_path": "/r/gimli-1/Cargo.toml"},
            {"name": "unwinding", "manifest_path": "/r/unwinding-1/Cargo.toml"}]}"#;
        assert_eq!(folder_of("unwinding", metadata).unwrap(), Path::new("/r/unwinding-1"));
        assert!(folder_of("spin", metadata).unwrap_err().to_string().contains("spin"));
        assert!(folder_of("spin", "{}").is_err());
        assert!(folder_of("spin", "").is_err());
    }
}
