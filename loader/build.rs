//! Passes the loader's linker script to the linker.

fn main() {
    let directory = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    println!("cargo::rerun-if-changed=link.ld");
    println!("cargo::rustc-link-arg-bins=--script={directory}/link.ld");
    // The loader is always loaded at 1 MiB, so it need not be position-independent.
    println!("cargo::rustc-link-arg-bins=--no-pie");
}
