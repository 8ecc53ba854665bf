//! Compiles code in other languages: C always, C++ and Fortran if there are compilers.

use std::env;
use std::path::PathBuf;
use std::process::{Command, Stdio};

fn main() {
    println!("cargo::rerun-if-changed=native");
    println!("cargo::rustc-check-cfg=cfg(has_cxx, has_fortran)");
    cc::Build::new().files(["native/checks.c", "native/threads.c"]).std("c11").compile("checks");
    compile_cxx();
    compile_fortran();
}

/// C++ without its standard library, exceptions and run-time types: the target has none of them.
fn compile_cxx() {
    let mut build = cc::Build::new();
    build.cpp(true).file("native/shapes.cpp");
    if env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "hermit") {
        // `new` and `delete` are in the C library.
        build.cpp_link_stdlib(None);
    }
    build.flag("-fno-exceptions").flag("-fno-rtti");
    if build.try_get_compiler().is_ok_and(|compiler| works(&mut compiler.to_command())) {
        build.compile("shapes");
        println!("cargo::rustc-cfg=has_cxx");
    }
}

/// Fortran without its run-time library. `FC_TARGET` names the compiler of a target, as `CC_TARGET` does for
/// the crate cc.
fn compile_fortran() {
    let target = env::var("TARGET").unwrap_or_default().replace('-', "_");
    let variable = format!("FC_{target}");
    println!("cargo::rerun-if-env-changed={variable}");
    let compiler = env::var(variable).unwrap_or_else(|_| "gfortran".to_owned());
    if !works(&mut Command::new(&compiler)) {
        return;
    }
    let folder = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let object = folder.join("vectors.o");
    let mut command = Command::new(&compiler);
    command.args(["-O2", "-fPIC", "-c", "native/vectors.f90", "-J"]).arg(&folder).arg("-o").arg(&object);
    assert!(command.status().is_ok_and(|status| status.success()), "{command:?} failed");
    println!("cargo::rustc-link-arg-bins={}", object.display());
    println!("cargo::rustc-cfg=has_fortran");
}

fn works(command: &mut Command) -> bool {
    command
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
