//! Threads in virtual machines with one and several CPUs, and crates from crates.io that use them.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::guests::{Examples, LIMIT, example, expect};
use super::report::Report;
use crate::build::{self, Options};
use crate::process;
use crate::qemu::Guest;
use crate::workspace;

/// How many CPUs a machine has.
const CPUS: [u32; 3] = [1, 2, 4];

/// What `examples/threads` is told; `stress` comes on top.
const CHECKS: [&str; 21] = [
    "allocate",
    "barrier",
    "busy",
    "clocks",
    "condvar",
    "exhaust",
    "many",
    "mpsc",
    "mutex",
    "names",
    "once",
    "parallel",
    "park",
    "rwlock",
    "scoped",
    "sleep",
    "sleep-together",
    "spawn-join",
    "stack",
    "sync-channel",
    "tls",
];

/// The memory of a machine, unless a check needs more. With this much, `exhaust` comes to the end of it.
const MEMORY: &str = "128M";

/// The memory for a check that has much on its stacks, or many of them.
const MUCH_MEMORY: &str = "1G";

/// How long everything runs at the same time.
const STRESS: Duration = Duration::from_secs(5);

/// The same when tests may take long.
const LONG_STRESS: Duration = Duration::from_secs(180);

/// What a guest that is told how long to run gets on top.
const GRACE: Duration = LIMIT;

pub(crate) fn test(report: &mut Report, examples: &Examples, long: bool) -> Result<()> {
    let threads = example("threads", true)?;
    let stress = if long { LONG_STRESS } else { STRESS };
    for cpus in CPUS {
        for check in CHECKS {
            report.check(&format!("threads, CPUs {cpus}: {check}"), || {
                run(examples, &threads, cpus, &[check]).and_then(|guest| succeeds(&guest))
            });
        }
        report.check(&format!("threads, CPUs {cpus}: everything at once for {stress:?}"), || {
            let seconds = stress.as_secs().to_string();
            let guest = run(examples, &threads, cpus, &["stress", "--seconds", &seconds])?;
            succeeds(&Guest { timeout: Some(stress + GRACE), ..guest })
        });
    }
    report.check("threads, CPUs 4: tables of the firmware above 1 GiB", || {
        let memory = "3G".parse().map_err(anyhow::Error::msg)?;
        succeeds(&Guest { memory, ..run(examples, &threads, 4, &["parallel"])? })
    });
    for cpus in [8, 64] {
        report.check(&format!("threads, CPUs {cpus}: spawn-join"), || {
            let memory = MUCH_MEMORY.parse().map_err(anyhow::Error::msg)?;
            succeeds(&Guest { memory, ..run(examples, &threads, cpus, &["spawn-join"])? })
        });
    }
    if long {
        report.check("threads, CPUs 2: a million sleeps of 0 to 50 us", || {
            let guest = run(examples, &threads, 2, &["sleep", "20000"])?;
            succeeds(&Guest { timeout: Some(LONG_STRESS), ..guest })
        });
    }
    policies(report, examples)?;
    third_party(report, examples)
}

/// The other ways in which threads can share CPUs, and what each promises. A busy thread may starve others with `fifo`.
const POLICIES: [(&str, &[&str]); 2] = [
    ("fair", &["busy", "condvar", "mpsc", "mutex", "parallel", "sleep-together", "spawn-join"]),
    ("fifo", &["condvar", "mpsc", "mutex", "sleep-together", "spawn-join"]),
];

fn policies(report: &mut Report, examples: &Examples) -> Result<()> {
    let folder = tempfile::TempDir::new().context("cannot make a temporary folder")?;
    for (policy, checks) in POLICIES {
        let features = vec![format!("hermit-sys/{policy}")];
        let options = Options { release: true, features, ..Options::default() };
        let source = workspace::example("threads").context("there is no example threads")?;
        // Programs of all policies come out under the same name.
        let image = folder.path().join(policy);
        std::fs::copy(build::guest_program(&source, &options)?, &image).context("cannot copy a program")?;
        for check in checks {
            report.check(&format!("threads, CPUs 2, policy {policy}: {check}"), || {
                run(examples, &image, 2, &[check]).and_then(|guest| succeeds(&guest))
            });
        }
    }
    Ok(())
}

/// A guest that checks what the arguments say, on a machine with so many CPUs.
fn run(examples: &Examples, image: &Path, cpus: u32, arguments: &[&str]) -> Result<Guest> {
    let memory = if matches!(arguments[0], "many" | "stack") { MUCH_MEMORY } else { MEMORY };
    let number = cpus.to_string();
    let arguments = [arguments, &["--cpus-expected", &number]].concat();
    let memory = memory.parse().map_err(anyhow::Error::msg)?;
    Ok(Guest { cpus, memory, ..examples.guest(image, &arguments) })
}

fn succeeds(guest: &Guest) -> Result<()> {
    expect(guest, b"", 0, &["ok"]).map(drop)
}

/// Every crate gives in a guest what it gives here.
fn third_party(report: &mut Report, examples: &Examples) -> Result<()> {
    let image = example("third_party", true)?;
    let digests = digests_here()?;
    for digest in digests.lines() {
        let (name, _) = digest.split_once(": ").context("third_party printed something else than digests")?;
        report.check(&format!("threads, CPUs 2: {name} from crates.io"), || {
            let memory = MUCH_MEMORY.parse().map_err(anyhow::Error::msg)?;
            let guest = Guest { cpus: 2, memory, ..examples.guest(&image, &[name]) };
            expect(&guest, b"", 0, &[digest]).map(drop)
        });
    }
    Ok(())
}

/// What `examples/third_party` prints on this machine.
fn digests_here() -> Result<String> {
    let mut cargo = process::cargo();
    cargo.current_dir(workspace::root()).args(["build", "--quiet", "--release", "--package", "third_party"]);
    let artifacts = build::artifacts(&mut cargo).context("cannot build third_party for this machine")?;
    let program = artifacts.into_iter().find_map(|artifact| artifact.executable);
    process::output(Command::new(program.context("cargo built no third_party")?).arg("all"))
}
