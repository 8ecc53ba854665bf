//! The target of programs without floating-point instructions.
//!
//! On hosts without virtualisation hardware, KVM may emulate the guest's instructions in software. The
//! emulator supports no SSE arithmetic and almost no x87 instructions. So images for this platform are built
//! for a target that this project defines: rustc's target of programs, with another floating-point ABI. The
//! first build of such an image installs the target's specification and std for it in the toolchain. A
//! specification in a file is an unstable feature of rustc, which `configure` enables.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Map, Value};

use crate::rust_flags::PACK_RELOCATIONS;
use crate::target::{GUEST_TARGET, SOFT_FLOAT_TARGET};
use crate::toolchain::Toolchain;
use crate::{process, workspace};

/// The processor features of the target: those of rustc's soft-float target `x86_64-unknown-none`.
pub(super) const FEATURES: &str = "-mmx,-sse,-sse2,-sse3,-ssse3,-sse4.1,-sse4.2,-avx,-avx2,+soft-float";

/// rustc's name of the calling convention without vector registers, which [`FEATURES`] require.
const ABI: &str = "softfloat";

/// Name of the specification's file in the folder of a target.
const SPECIFICATION: &str = "target.json";

/// Makes cargo build for the target. The build has its own target directory, because build scripts get
/// another environment than in other builds. Overrides the user's flags for rustc.
pub(crate) fn configure(cargo: &mut Command) {
    cargo.arg("--target-dir").arg(target_dir());
    let flags = ["-Zunstable-options", PACK_RELOCATIONS].join("\x1f");
    cargo.env("RUSTC_BOOTSTRAP", "1").env("CARGO_ENCODED_RUSTFLAGS", flags);
}

/// The target directory of soft-float builds.
pub(super) fn target_dir() -> PathBuf {
    workspace::target_dir().join("soft-float")
}

/// Writes the specification of the target into the target's folder, where rustc finds it, and returns the
/// name of the file.
pub(super) fn specify(toolchain: &Toolchain) -> Result<PathBuf> {
    let mut rustc = Command::new(toolchain.sysroot.join("bin/rustc"));
    rustc.env("RUSTC_BOOTSTRAP", "1").args(["-Zunstable-options", "--print", "target-spec-json"]);
    let hard = process::output(rustc.args(["--target", GUEST_TARGET]))?;
    let soft = soften(&hard).with_context(|| format!("rustc's specification of {GUEST_TARGET}"))?;
    let folder = toolchain.target(SOFT_FLOAT_TARGET);
    let file = folder.join(SPECIFICATION);
    fs::create_dir_all(&folder)
        .and_then(|()| fs::write(&file, soft))
        .with_context(|| format!("cannot write {}", file.display()))?;
    Ok(PathBuf::from(SPECIFICATION))
}

/// Returns a target specification with the soft-float ABI instead of the hard-float ABI.
fn soften(specification: &str) -> Result<String> {
    let mut entries: Map<String, Value> = serde_json::from_str(specification)?;
    entries.insert("features".to_owned(), FEATURES.into());
    entries.insert("rustc-abi".to_owned(), ABI.into());
    Ok(serde_json::to_string_pretty(&entries)?)
}

#[cfg(test)]
mod tests {
    use super::{ABI, FEATURES, soften};
    use serde_json::{Value, json};

    #[test]
    fn soften_changes_only_the_float_abi() {
        let hard = json!({ "arch": "x86_64", "features": "+rdrand", "os": "hermit" });
        let soft: Value = serde_json::from_str(&soften(&hard.to_string()).unwrap()).unwrap();
        let expected = json!({ "arch": "x86_64", "features": FEATURES, "os": "hermit", "rustc-abi": ABI });
        assert_eq!(soft, expected);
        assert!(soften("[]").is_err());
    }
}
