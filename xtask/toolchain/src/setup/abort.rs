//! A change of the unwinder's library for programs whose panics abort. The installed libraries are compiled
//! to unwind, but such programs must be linked without the unwinder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::process;
use crate::toolchain::Toolchain;

/// Function that a landing pad calls at its end, to continue unwinding. Both the unwinder and the patched
/// `panic_abort` define it.
const RESUME: &str = "_Unwind_Resume";

/// Beginning of the name of the unwinder's file.
const UNWINDER: &str = "libunwinding-";

/// Returns the files to install for the libraries `built`. Replaces the unwinder by a copy in `folder`, whose
/// definition of [`RESUME`] is weak: the linker prefers the definition in `panic_abort`.
pub(super) fn prepare(toolchain: &Toolchain, folder: &Path, built: Vec<PathBuf>) -> Result<Vec<PathBuf>> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let prepare = |file: PathBuf| match file.file_name().and_then(|name| name.to_str()) {
        Some(name) if name.starts_with(UNWINDER) && name.ends_with(".rlib") => {
            weaken(toolchain, &file, folder.join(name))
        }
        _ => Ok(file),
    };
    built.into_iter().map(prepare).collect()
}

/// Makes a copy of a library in which [`RESUME`] is a weak symbol; returns its path.
fn weaken(toolchain: &Toolchain, library: &Path, copy: PathBuf) -> Result<PathBuf> {
    let mut objcopy = Command::new(toolchain.host_tool("rust-objcopy")?);
    // objcopy loads the LLVM library of rustc.
    objcopy.env("LD_LIBRARY_PATH", toolchain.sysroot.join("lib"));
    process::run(objcopy.arg(format!("--weaken-symbol={RESUME}")).arg(library).arg(&copy))?;
    Ok(copy)
}
