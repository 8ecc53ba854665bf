//! The program that the tests run.

use std::env;
use std::path::PathBuf;

/// Environment variable with the path of the uhyve to test, such as the installed one. By default, the tests
/// run the uhyve that cargo has built with them.
const PROGRAM_VARIABLE: &str = "HERMIT_TEST_UHYVE";

/// Returns the path of uhyve.
pub(crate) fn uhyve() -> PathBuf {
    env::var_os(PROGRAM_VARIABLE).map_or_else(|| env!("CARGO_BIN_EXE_uhyve").into(), PathBuf::from)
}
