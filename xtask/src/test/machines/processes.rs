//! The two processes of the process engine: neither outlives the other.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::Ring;
use crate::process;
use crate::test::report::Report;
use crate::test::running::Running;

/// How long a process may take to end.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) fn test(report: &mut Report, ring: &Ring<'_>) {
    for signal in ["KILL", "TERM"] {
        ring.check(report, &format!("the guest ends with uhyve, SIG{signal}"), || {
            let (running, guest) = start(ring)?;
            running.signal(signal)?;
            running.end()?;
            has_ended(guest)
        });
    }
    ring.check(report, "uhyve ends with the guest", || {
        let (running, guest) = start(ring)?;
        process::run(Command::new("sh").args(["-c", &format!("kill -KILL {guest}")]))?;
        running.end()?.check(125, &["uhyve: error: "])
    });
}

/// A guest that waits, and its process.
fn start(ring: &Ring<'_>) -> Result<(Running, u32)> {
    let running = ring.machine("stdin", &[]).waits().start()?;
    running.has_printed(b"READY")?;
    let guest = child(running.id())?;
    Ok((running, guest))
}

/// The only child of a process.
fn child(parent: u32) -> Result<u32> {
    let tasks = fs::read_dir(format!("/proc/{parent}/task")).context("uhyve has no threads")?;
    let children: String =
        tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("children")).ok()).collect();
    let children = children.trim();
    children.parse().with_context(|| format!("uhyve has not one child but {children:?}"))
}

fn has_ended(process: u32) -> Result<()> {
    let start = Instant::now();
    while Path::new(&format!("/proc/{process}")).exists() {
        ensure!(start.elapsed() < PATIENCE, "process {process} is still there");
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
