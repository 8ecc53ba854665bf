//! Builds the kernel and the network stack, and links them into the program.
//!
//! Each becomes one relocatable object in which only the symbols of the ABI are global, so that the program's
//! copies of `core`, `alloc` and other shared crates do not conflict with theirs. The objects are kept in a
//! cache of the toolchain.

mod build_dir;
mod cache;
mod component;
mod digest;
mod object;
mod progress;
mod provide;
mod toolchain;
mod user_cache;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use component::Component;
use provide::Provider;

fn main() {
    if let Err(error) = build() {
        for line in error.lines() {
            println!("cargo::error={line}");
        }
    }
}

/// Builds the components for hermit targets; does nothing for others.
fn build() -> Result<(), String> {
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-env-changed={}", cache::VARIABLE);
    if variable("CARGO_CFG_TARGET_OS")? != "hermit" {
        return Ok(());
    }
    let here = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    let workspace = here.parent().ok_or("hermit-sys is not in its workspace")?;
    let out = PathBuf::from(variable("OUT_DIR")?);
    let provider = Provider::new(workspace, out)?;
    let common = |own: &[PathBuf]| {
        let common =
            ["hermit-abi", "hermit-sys/build", "Cargo.toml", "Cargo.lock"].map(|path| workspace.join(path));
        [own, &common].concat()
    };
    let kernel = Component {
        package: "hermit-kernel",
        manifest: workspace.join("kernel/Cargo.toml"),
        target: "x86_64-unknown-none".to_owned(),
        sources: common(&[workspace.join("kernel")]),
        exports: kernel_exports(&workspace.join("hermit-abi/src/symbols.rs"))?,
        features: features()?,
    };
    let net = Component {
        package: "hermit-net",
        manifest: here.join("net/Cargo.toml"),
        target: variable("TARGET")?,
        sources: common(&[
            here.join("net"),
            workspace.join("kernel/base"),
            workspace.join("kernel/interface"),
        ]),
        // The value of `hermit_interface::net::START`, on which a build script without dependencies cannot
        // depend.
        exports: vec!["hermit_net_start".to_owned()],
        features: Vec::new(),
    };
    provide_all(&provider, &[kernel, net])?;
    leave_out_tables(provider.out())
}

/// Name of the linker script of programs whose panics abort.
const ABORT_SCRIPT: &str = "hermit-abort.ld";

/// Makes the linker leave out std's tables for unwinding, if panics of the program abort. Only std's
/// functions have tables then.
fn leave_out_tables(out: &Path) -> Result<(), String> {
    if variable("CARGO_CFG_PANIC")? != "abort" {
        return Ok(());
    }
    let script = "SECTIONS { /DISCARD/ : { *(.eh_frame) *(.gcc_except_table .gcc_except_table.*) } } INSERT AFTER .text;\n";
    let path = out.join(ABORT_SCRIPT);
    fs::write(&path, script).map_err(|error| format!("{}: {error}", path.display()))?;
    println!("cargo::rustc-link-lib=static:-bundle,+verbatim={ABORT_SCRIPT}");
    Ok(())
}

/// Provides the objects of the components in parallel, and makes cargo link them into the program.
fn provide_all(provider: &Provider, components: &[Component]) -> Result<(), String> {
    let objects: Vec<_> = thread::scope(|scope| {
        let provide = |component| scope.spawn(move || provider.provide(component));
        let threads: Vec<_> = components.iter().map(provide).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err("panicked".into()))).collect()
    });
    for (component, object) in components.iter().zip(objects) {
        component.watch(provider.workspace());
        // The file is an object and not an archive: `verbatim`, since its name is not `lib*.a`, and
        // `-bundle`, since it must not go into the crate's own archive.
        println!("cargo::rustc-link-lib=static:-bundle,+verbatim={}", object?);
    }
    println!("cargo::rustc-link-search=native={}", provider.out().display());
    Ok(())
}

/// Global symbols of the kernel: those of `hermit-abi`, and the entry point.
fn kernel_exports(symbols: &PathBuf) -> Result<Vec<String>, String> {
    let text = fs::read_to_string(symbols).map_err(|error| format!("{}: {error}", symbols.display()))?;
    let names = text.split('"').filter(|part| part.starts_with("sys_")).map(String::from);
    Ok(names.chain(["_start".to_owned()]).collect())
}

/// Features of the kernel that programs choose: the scheduling policy and the allocator.
const FEATURES: [&str; 4] = ["bump", "fifo", "round-robin", "tlsf"];

/// Features of the kernel: those that the program chooses, and `soft-float` if the target has no vector
/// registers.
fn features() -> Result<Vec<&'static str>, String> {
    let variable_of = |name: &str| format!("CARGO_FEATURE_{}", name.to_uppercase().replace('-', "_"));
    let is_enabled = |name: &str| env::var_os(variable_of(name)).is_some();
    let vectors = variable("CARGO_CFG_TARGET_FEATURE")?.split(',').any(|feature| feature == "sse");
    let soft_float = (!vectors).then_some("soft-float");
    Ok(FEATURES.into_iter().filter(|name| is_enabled(name)).chain(soft_float).collect())
}

/// An environment variable that cargo sets for build scripts.
fn variable(name: &str) -> Result<String, String> {
    env::var(name).map_err(|error| format!("{name}: {error}"))
}
