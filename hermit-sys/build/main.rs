//! Builds the kernel and the network stack and has them linked into the program.
//!
//! Each becomes one relocatable object in which only the symbols of the ABI are visible, so that the program's
//! own copies of `core`, `alloc` and whatever else it shares with them never meet theirs.

mod object;
mod part;

use std::env;
use std::path::PathBuf;

use part::Part;

fn main() {
    if let Err(error) = build() {
        for line in error.lines() {
            println!("cargo::error={line}");
        }
    }
}

/// Builds the parts, for the one target that they are for; on others the crate is empty.
fn build() -> Result<(), String> {
    println!("cargo::rerun-if-changed=build");
    if variable("CARGO_CFG_TARGET_OS")? != "hermit" {
        return Ok(());
    }
    let here = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    let workspace = here.parent().ok_or("hermit-sys is not in its workspace")?;
    let out = PathBuf::from(variable("OUT_DIR")?);
    let parts = [
        Part {
            package: "hermit-kernel",
            manifest: workspace.join("kernel/Cargo.toml"),
            target: "x86_64-unknown-none".to_owned(),
            sources: vec![workspace.join("kernel"), workspace.join("hermit-abi")],
            exports: kernel_exports(&workspace.join("hermit-abi/src/symbols.rs"))?,
            features: features()?,
        },
        Part {
            package: "hermit-net",
            manifest: here.join("net/Cargo.toml"),
            target: variable("TARGET")?,
            sources: vec![here.join("net"), workspace.join("kernel/interface"), workspace.join("hermit-abi")],
            // `hermit_interface::net::START`.
            exports: vec!["hermit_net_start".to_owned()],
            features: Vec::new(),
        },
    ];
    for file in ["Cargo.toml", "Cargo.lock"] {
        println!("cargo::rerun-if-changed={}", workspace.join(file).display());
    }
    for part in parts {
        part.watch();
        let library = part.compile(&out)?;
        let object = object::link(&part, &library, &out)?;
        // Named by its full file name and not packed into our library: the linker takes an object as it is.
        println!("cargo::rustc-link-lib=static:-bundle,+verbatim={object}");
    }
    println!("cargo::rustc-link-search=native={}", out.display());
    Ok(())
}

/// The names of the kernel's functions that programs may call: those of `hermit-abi`, and the entry point.
fn kernel_exports(symbols: &PathBuf) -> Result<Vec<String>, String> {
    let text = std::fs::read_to_string(symbols).map_err(|error| format!("{}: {error}", symbols.display()))?;
    let names = text.split('"').filter(|part| part.starts_with("sys_")).map(String::from);
    Ok(names.chain(["_start".to_owned()]).collect())
}

/// The kernel's features: those of ours that are its own, and whether programs have vector registers.
fn features() -> Result<Vec<&'static str>, String> {
    let chosen = |name: &str| env::var_os(format!("CARGO_FEATURE_{}", name.to_uppercase())).is_some();
    let vectors = variable("CARGO_CFG_TARGET_FEATURE")?.split(',').any(|feature| feature == "sse");
    let soft_float = (!vectors).then_some("soft-float");
    Ok(["fair", "fifo"].into_iter().filter(|name| chosen(name)).chain(soft_float).collect())
}

/// A variable that cargo sets for build scripts.
fn variable(name: &str) -> Result<String, String> {
    env::var(name).map_err(|error| format!("{name}: {error}"))
}
