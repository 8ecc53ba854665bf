//! How cargo builds the libraries of the toolchain.

use std::path::PathBuf;
use std::process::Command;

use crate::process;
use crate::toolchain::Toolchain;

/// Returns a cargo command for the libraries of the toolchain, without the user's flags and profile settings.
pub(super) fn command(toolchain: &Toolchain, remap: &[(PathBuf, String)]) -> Command {
    let mut cargo = process::cargo();
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        let setting = ["CARGO_PROFILE_", "CARGO_BUILD_", "CARGO_TARGET_", "CARGO_INCREMENTAL", "RUSTFLAGS"];
        if setting.iter().any(|prefix| name.starts_with(prefix)) {
            cargo.env_remove(name);
        }
    }
    // Backtraces need frame pointers. Leaf functions and functions that only end in a tail call have none.
    let mut flags = [
        "-Zforce-unstable-if-unmarked",
        "-Cembed-bitcode=yes",
        "-Zunstable-options",
        "-Cforce-frame-pointers=non-leaf",
    ]
    .map(str::to_owned)
    .to_vec();
    let remaps = remap.iter().map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display()));
    flags.extend(remaps);
    cargo.env("RUSTC_BOOTSTRAP", "1").env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
    // The compiler that will use std must also build it. Without this variable, rustup would select the
    // compiler by the current folder.
    cargo.env("RUSTC", toolchain.sysroot.join("bin/rustc"));
    cargo.current_dir(&toolchain.sysroot);
    cargo
}
