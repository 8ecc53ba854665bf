//! Tests of uhyve when nothing reads its output and messages.

use std::fs;
use std::io::{PipeReader, PipeWriter, Write, pipe};
use std::path::Path;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_setfl};

/// Time limit of an action. It is much longer than any action takes.
const LIMIT: Duration = Duration::from_secs(150);

/// Returns a full pipe: it takes no more bytes until the reader is read from.
pub(crate) fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = pipe().unwrap();
    fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
    while writer.write(&[0; 4096]).is_ok() {}
    fcntl_setfl(&writer, OFlags::empty()).unwrap();
    (reader, writer)
}

/// Starts uhyve, and calls `is_done` repeatedly until it returns true. Then kills uhyve.
fn run_until(uhyve: &mut Command, mut is_done: impl FnMut(&mut Child) -> bool) {
    let [(_stdout, output), (_stderr, errors)] = [full_pipe(), full_pipe()];
    let mut uhyve = uhyve.stdout(output).stderr(errors).spawn().unwrap();
    let start = Instant::now();
    let mut is_in_time = true;
    while is_in_time && !is_done(&mut uhyve) {
        thread::sleep(Duration::from_millis(10));
        is_in_time = start.elapsed() < LIMIT;
    }
    // Fails if uhyve has already ended.
    let _: std::io::Result<()> = uhyve.kill();
    uhyve.wait().unwrap();
    assert!(is_in_time, "uhyve still runs, or has not done what it should");
}

/// Asserts that uhyve ends by itself with the status of `--timeout`.
pub(crate) fn ends_by_the_time_limit(uhyve: &mut Command) {
    let mut code = None;
    run_until(uhyve, |uhyve| {
        let status = uhyve.try_wait().unwrap();
        code = status.and_then(|status| status.code());
        status.is_some()
    });
    assert_eq!(code, Some(124));
}

/// Asserts that the guest writes `contents` to `file`.
pub(crate) fn writes(uhyve: &mut Command, file: &Path, contents: &[u8]) {
    run_until(uhyve, |_| fs::read(file).unwrap() == contents);
}
