//! Access to uhyve and its guest by other processes of the same user.

use std::fs;
use std::process::{Command, Output};

/// Asserts that another process of the same user, without capabilities, can see that `process` exists, but
/// can access neither its memory nor its descriptors. Also asserts that `process` writes no core dump.
pub(crate) fn is_denied(process: i32) {
    for (name, is_readable) in [("stat", true), ("maps", false), ("environ", false)] {
        let mut command = Command::new("setpriv");
        command
            .args(["--bounding-set=-all", "--inh-caps=-all", "cat"])
            .arg(format!("/proc/{process}/{name}"));
        let Output { status, stderr, .. } = command.output().unwrap();
        assert_eq!(status.success(), is_readable, "{process}: {name}: {}", String::from_utf8_lossy(&stderr));
    }
    let limits = fs::read_to_string(format!("/proc/{process}/limits")).unwrap();
    let cores = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(cores.split_whitespace().collect::<Vec<_>>()[4..6], ["1", "1"], "{process}");
}
