//! The crate `unwinding`, which std unwinds with: a patched copy beside that of std's sources.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::files;
use super::library::library_cargo;
use super::patches::{self, Patch};
use crate::process;
use crate::target::GUEST_TARGET;
use crate::toolchain::Toolchain;

/// Name of the crate, and of the folder of its copy.
pub(super) const CRATE: &str = "unwinding";

/// The patches of the crate's sources, relative to its folder.
pub(super) const PATCHES: &[Patch] = &[
    // The context lies in memory below the new stack pointer. A signal handler there, or here the state of a thread that is preempted,
    // overwrites it; so the stack pointer must change after the last register was read. See SysV ABI for AMD64, 3.2.2 (red zone).
    Patch {
        file: "src/unwinder/arch/x86_64.rs",
        old: "            /* Restore stack */
            mov rsp, [rdi + 0x38]

",
        new: "            /*
            * Push the return address and RDI on the new stack. The context is below them, and must not be
            * below the stack pointer while it is used: what interrupts the thread may use the memory there.
            */
            mov rax, [rdi + 0x38]
            sub rax, 16
            mov rcx, [rdi + 0x80]
            mov [rax + 8], rcx
            mov rcx, [rdi + 0x28]
            mov [rax], rcx
            push rax

",
    },
    Patch {
        file: "src/unwinder/arch/x86_64.rs",
        old: "            /* Restore return address */
            mov rax, [rdi + 0x80]
            push rax

",
        new: "",
    },
    Patch {
        file: "src/unwinder/arch/x86_64.rs",
        old: "            /* RDI restored last */
            mov rdi, [rdi + 0x28]

            ret
",
        new: "            /* Restore stack, then RDI */
            pop rsp
            pop rdi

            ret
",
    },
];

/// Makes the patched copy at `copy`.
///
/// `library` is the copy of std's sources, whose lock file names the version.
pub(super) fn copy(toolchain: &Toolchain, library: &Path, copy: &Path) -> Result<()> {
    files::copy_dir(&published(toolchain, library)?, copy)?;
    patches::apply(PATCHES, copy)
}

/// Returns the folder of the published sources, which cargo downloads with std's other dependencies if need be.
fn published(toolchain: &Toolchain, library: &Path) -> Result<PathBuf> {
    let mut cargo = library_cargo(toolchain, &[]);
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
