//! Runs the unit tests of the build script, which cargo does not build as a test.

#![expect(
    dead_code,
    reason = "the build script's entry point, which uses everything, is not part of the tests"
)]

#[path = "../build/build_dir.rs"]
mod build_dir;
#[path = "../build/cache.rs"]
mod cache;
#[path = "../build/component.rs"]
mod component;
#[path = "../build/digest.rs"]
mod digest;
#[path = "../build/progress.rs"]
mod progress;
#[path = "../build/toolchain.rs"]
mod toolchain;
#[path = "../build/user_cache.rs"]
mod user_cache;

/// An environment variable that cargo sets for build scripts.
fn variable(name: &str) -> Result<String, String> {
    std::env::var(name).map_err(|error| format!("{name}: {error}"))
}
