//! The target of programs without floating-point instructions.
//!
//! Where KVM emulates processors in software, as on machines without virtualisation hardware, it knows no arithmetic of
//! SSE and next to nothing of the x87. Images for tests of that platform are therefore built for a target of our own:
//! rustc's target of programs in everything but its floating-point ABI. Its specification and a std for it lie in the
//! toolchain, like those of other targets, from the first time that such an image is asked for. Since a specification
//! in a file is not a stable thing, rustc must be told that this is known: see [`configure`].

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Map, Value};

use crate::target::{GUEST_TARGET, SOFT_FLOAT_TARGET};
use crate::toolchain::Toolchain;
use crate::{process, workspace};

/// What the compiler may use of the processor: that of rustc's own soft-float target, `x86_64-unknown-none`.
pub(super) const FEATURES: &str = "-mmx,-sse,-sse2,-sse3,-ssse3,-sse4.1,-sse4.2,-avx,-avx2,+soft-float";

/// How numbers are handed over, as rustc calls it; it belongs to the features.
const ABI: &str = "softfloat";

/// The file of a target's folder in which rustc looks for its specification.
const SPECIFICATION: &str = "target.json";

/// Has cargo build for the target, in a folder for that alone: what build scripts see differs from that in others.
/// The user's own flags for rustc do not count.
pub(crate) fn configure(cargo: &mut Command) {
    cargo.arg("--target-dir").arg(target_dir());
    cargo.env("RUSTC_BOOTSTRAP", "1").env("CARGO_ENCODED_RUSTFLAGS", "-Zunstable-options");
}

/// The target directory of soft-float builds.
pub(super) fn target_dir() -> PathBuf {
    workspace::target_dir().join("soft-float")
}

/// Writes the specification of the target into its folder, where rustc finds it from then on; gives the file's name.
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

/// The specification of a target without floating-point instructions that is like another.
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
    fn only_the_floating_point_abi_differs() {
        let hard = json!({ "arch": "x86_64", "features": "+rdrand", "os": "hermit" });
        let soft: Value = serde_json::from_str(&soften(&hard.to_string()).unwrap()).unwrap();
        let expected = json!({ "arch": "x86_64", "features": FEATURES, "os": "hermit", "rustc-abi": ABI });
        assert_eq!(soft, expected);
        assert!(soften("[]").is_err());
    }
}
