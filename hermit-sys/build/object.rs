//! Links a static library into one object with few global symbols, using the tools that come with rustc.

use std::path::Path;
use std::process::Command;

use crate::component::Component;
use crate::toolchain::Toolchain;

/// Links a component's library into the object `object`.
pub(crate) fn link(
    component: &Component,
    toolchain: &Toolchain,
    library: &Path,
    object: &Path,
) -> Result<(), String> {
    let mut linker = toolchain.tool("rust-lld")?;
    // Keep only what the exports need. Functions stay in sections of their own, so that the final link can
    // drop more.
    linker.args(["-flavor", "gnu", "-r", "--gc-sections", "-o"]).arg(object);
    for export in &component.exports {
        linker.args(["-u", export]);
    }
    linker.arg(library);
    run(linker)?;

    let exports = object.with_extension("exports");
    write(&exports, &component.exports.join("\n"))?;
    let mut objcopy = toolchain.tool("rust-objcopy")?;
    objcopy.args(["--remove-section=.llvmbc", "--remove-section=.llvmcmd"]);
    objcopy.arg(format!("--keep-global-symbols={}", exports.display())).arg(object);
    run(objcopy)
}

fn run(mut command: Command) -> Result<(), String> {
    let output =
        command.output().map_err(|error| format!("cannot start {:?}: {error}", command.get_program()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{:?} failed:\n{}", command.get_program(), String::from_utf8_lossy(&output.stderr)))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}
