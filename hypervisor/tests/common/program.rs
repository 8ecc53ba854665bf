//! The program that the tests run.

use std::env;
use std::path::PathBuf;

/// Environment variable with the path of another uhyve than the one that cargo has built with the tests, such
/// as the one that is installed.
const PROGRAM_VARIABLE: &str = "HERMIT_TEST_UHYVE";

/// Path of uhyve.
pub(crate) fn uhyve() -> PathBuf {
    env::var_os(PROGRAM_VARIABLE).map_or_else(|| env!("CARGO_BIN_EXE_uhyve").into(), PathBuf::from)
}
