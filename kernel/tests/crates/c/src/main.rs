//! Crates that compile C and assembly.

mod compression;
mod cryptography;
mod parsers;

use std::process::ExitCode;

fn main() -> ExitCode {
    crate_uses::main(&[
        ("aws-lc-rs", cryptography::aws_lc_rs),
        ("bzip2", compression::bzip2),
        ("libz-sys", compression::libz_sys),
        ("lz4", compression::lz4),
        ("onig", parsers::onig),
        ("ring", cryptography::ring),
        ("secp256k1", cryptography::secp256k1),
        ("tree-sitter", parsers::tree_sitter),
        ("zstd", compression::zstd),
    ])
}
