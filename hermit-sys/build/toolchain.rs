//! The compiler that builds the program and the components, and the folders of its sysroot.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::UNIX_EPOCH;

use crate::variable;

/// rustc and its sysroot.
#[derive(Debug)]
pub(crate) struct Toolchain {
    /// Output of `rustc -vV`, which identifies the compiler.
    pub(crate) identity: String,
    /// Root folder of the toolchain.
    pub(crate) sysroot: PathBuf,
}

impl Toolchain {
    /// Asks the compiler that cargo uses.
    pub(crate) fn detect() -> Result<Self, String> {
        let sysroot = PathBuf::from(rustc(&["--print", "sysroot"])?.trim_end());
        Ok(Self { identity: rustc(&["-vV"])?, sysroot })
    }

    /// Returns the folder of a target, in which set-up has installed std.
    pub(crate) fn target(&self, target: &str) -> PathBuf {
        self.sysroot.join("lib/rustlib").join(target)
    }

    /// Describes the libraries of a target, except the one that contains the default kernel: names, sizes and
    /// times of installation of their files. A compiled crate fits only the libraries that it was compiled
    /// with.
    pub(crate) fn libraries(&self, target: &str) -> String {
        let mut lines: Vec<_> = fs::read_dir(self.target(target).join("lib"))
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|file| !file.to_string_lossy().contains("/libhermit_abi-"))
            .map(|file| describe(&file))
            .collect();
        lines.sort();
        lines.concat()
    }

    /// Returns a command of a tool that comes with rustc.
    pub(crate) fn tool(&self, name: &str) -> Result<Command, String> {
        let libraries = self.sysroot.join("lib");
        let folder = libraries.join("rustlib").join(variable("HOST")?).join("bin");
        let mut command = Command::new(folder.join(name));
        // rust-objcopy uses the LLVM library that rustc uses.
        command.env("LD_LIBRARY_PATH", libraries);
        Ok(command)
    }
}

/// Returns name, size and time of modification of a file as a line.
fn describe(file: &Path) -> String {
    let data = fs::metadata(file).ok();
    let time = data.as_ref().and_then(|data| data.modified().ok()?.duration_since(UNIX_EPOCH).ok());
    format!("{:?} {:?} {time:?}\n", file.file_name(), data.map(|data| data.len()))
}

fn rustc(arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(variable("RUSTC")?).args(arguments).output();
    let output = output.map_err(|error| format!("cannot start rustc: {error}"))?;
    if !output.status.success() {
        return Err(format!("rustc {arguments:?} failed: {}", String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
