//! Links a static library into one object with few global symbols, by the tools that come with rustc.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::component::Component;
use crate::variable;

/// Links a component's library into one object below `out`; returns the object's file name.
pub(crate) fn link(component: &Component, library: &Path, out: &Path) -> Result<String, String> {
    let tools = Tools::find()?;
    let name = format!("{}.o", component.package);
    let object = out.join(&name);
    let mut linker = tools.command("rust-lld");
    // Keep only what the exports need. Functions stay in sections of their own, so that the final link can drop more.
    linker.args(["-flavor", "gnu", "-r", "--gc-sections", "-o"]).arg(&object);
    for export in &component.exports {
        linker.args(["-u", export]);
    }
    linker.arg(library);
    run(linker)?;

    let exports = out.join(format!("{}.exports", component.package));
    write(&exports, &component.exports.join("\n"))?;
    let mut objcopy = tools.command("rust-objcopy");
    objcopy.args(["--remove-section=.llvmbc", "--remove-section=.llvmcmd"]);
    objcopy.arg(format!("--keep-global-symbols={}", exports.display())).arg(&object);
    run(objcopy)?;
    Ok(name)
}

/// The tools in rustc's sysroot.
struct Tools {
    binaries: PathBuf,
    libraries: PathBuf,
}

impl Tools {
    fn find() -> Result<Self, String> {
        let output = Command::new(variable("RUSTC")?)
            .args(["--print", "sysroot"])
            .output()
            .map_err(|error| format!("cannot start rustc: {error}"))?;
        let sysroot = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        let libraries = sysroot.join("lib");
        let binaries = libraries.join("rustlib").join(variable("HOST")?).join("bin");
        Ok(Self { binaries, libraries })
    }

    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.binaries.join(name));
        // rust-objcopy uses the LLVM library that rustc uses.
        command.env("LD_LIBRARY_PATH", &self.libraries);
        command
    }
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
