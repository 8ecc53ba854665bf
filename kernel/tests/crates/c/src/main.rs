//! Crates that compile C and assembly.

crate_uses::crate_uses! {
    "aws-lc-rs": aws_lc_rs,
    "bzip2": bzip2,
    "libz-sys": libz_sys,
    "lz4": lz4,
    "onig": onig,
    "ring": ring,
    "secp256k1": secp256k1,
    "tree-sitter": tree_sitter,
    "zstd": zstd,
}
