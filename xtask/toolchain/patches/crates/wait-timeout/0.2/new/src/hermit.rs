//! There are no processes: std starts none, so there is no `Child` to wait for.

use std::io;
use std::process::{Child, ExitStatus};
use std::time::Duration;

pub fn wait_timeout(_: &mut Child, _: Duration) -> io::Result<Option<ExitStatus>> {
    Err(io::ErrorKind::Unsupported.into())
}
