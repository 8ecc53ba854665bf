//! Files: `kernel/tests/file_calls` and `examples/notes`.

use anyhow::{Result, ensure};

use crate::test::platform::TestPlatform;
use crate::test::schedule::Tests;

/// Memory in MiB of the guest whose file system is filled.
const MEMORY: u64 = 64;

pub(super) fn test<'a>(tests: &mut Tests<'a>, platform: &'a TestPlatform<'_>) {
    tests.add(format!("{platform}: std::fs as on Linux"), move || {
        platform.guest("file_calls", &["--check"]).cpus(2).expect(0, &["lines as on Linux"]).map(drop)
    });
    tests.add(format!("{platform}, CPUs 4: files in threads, and a full file system"), move || {
        platform.guest("file_calls", &["--stress"]).cpus(4).memory(MEMORY).expect(0, &["ok"]).map(drop)
    });
    tests.add(format!("{platform}: notes in a log on std::fs"), move || notes(platform));
}

/// Commands of `notes`. The second `get milk` fails, because the note was removed.
const COMMANDS: &str = "put milk two litres\nput bread one\nput milk three litres\nget milk\nlist\nremove milk\n\
    get milk\ncompact\nlist\n";

fn notes(platform: &TestPlatform<'_>) -> Result<()> {
    let outcome =
        platform.guest("notes", &[]).reads(COMMANDS.as_bytes()).expect(1, &["there is no such note"])?;
    let output = String::from_utf8_lossy(&outcome.output);
    ensure!(output == "three litres\nbread\nmilk\n70 bytes less\nbread\n", "other output\n{outcome}");
    Ok(())
}
