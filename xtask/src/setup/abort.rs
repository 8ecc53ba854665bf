//! A change of the unwinder's library for programs whose panics abort: they are linked without the unwinder,
//! although the libraries unwind.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::process;
use crate::toolchain::Toolchain;

/// Function that code calls at the end of a landing pad, to continue unwinding. Both the unwinder and the
/// patched `panic_abort` define it.
const RESUME: &str = "_Unwind_Resume";

/// Beginning of the name of the unwinder's file.
const UNWINDER: &str = "libunwinding-";

/// Returns the files to install for the libraries `built`: the unwinder becomes one that yields to
/// `panic_abort`, in `folder`.
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
    // It uses the LLVM library that rustc uses.
    objcopy.env("LD_LIBRARY_PATH", toolchain.sysroot.join("lib"));
    process::run(objcopy.arg(format!("--weaken-symbol={RESUME}")).arg(library).arg(&copy))?;
    Ok(copy)
}
