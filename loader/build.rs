//! Hands the loader's linker script to the linker.

fn main() {
    let directory = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    println!("cargo::rerun-if-changed=link.ld");
    println!("cargo::rustc-link-arg-bins=--script={directory}/link.ld");
    // The code is position independent, the program need not be: it is always loaded at 1 MiB.
    println!("cargo::rustc-link-arg-bins=--no-pie");
}
