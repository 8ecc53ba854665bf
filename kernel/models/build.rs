//! Compiles the crates of the tests as models: with loom's atomics and threads.

fn main() {
    println!("cargo::rustc-cfg=loom");
    println!("cargo::rerun-if-changed=build.rs");
}
