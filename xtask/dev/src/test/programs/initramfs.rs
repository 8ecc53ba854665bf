//! Tests of the initramfs: `--root`.

use std::fs;
use std::os::unix::fs::symlink;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::test::platform::TestPlatform;
use crate::test::schedule::Tests;

/// Size of a file that the guest overwrites, in bytes. It is not a multiple of a page.
const SIZE: usize = 100_001;

pub(super) fn test<'a>(tests: &mut Tests<'a>, platform: &'a TestPlatform<'_>) {
    tests.add(format!("{platform}: an initramfs"), move || files(platform));
    tests.add(format!("{platform}: names of an initramfs"), move || names(platform));
}

/// Lookups of names read `/etc/hosts` in the initramfs, before and after the program uses a file itself.
fn names(platform: &TestPlatform<'_>) -> Result<()> {
    let context = "cannot make files";
    let folder = TempDir::new().context(context)?;
    fs::create_dir(folder.path().join("etc")).context(context)?;
    fs::write(folder.path().join("etc/hosts"), "192.0.2.9 early\n").context(context)?;
    platform.guest("abi_calls", &["names-initial"]).initramfs(folder.path()).expect(0, &["ok"]).map(drop)
}

fn files(platform: &TestPlatform<'_>) -> Result<()> {
    let context = "cannot make files";
    let folder = TempDir::new().context(context)?;
    fs::create_dir(folder.path().join("etc")).context(context)?;
    fs::write(folder.path().join("etc/text"), "a text of the host\n").context(context)?;
    fs::write(folder.path().join("data"), vec![7; SIZE]).context(context)?;
    symlink("etc/text", folder.path().join("link")).context(context)?;
    for (arguments, text) in [
        (&["read", "/link", "2", "4"][..], "text"),
        (&["stat", "/etc"], "directory of length 20"),
        (&["check", "/data"], "100001 bytes are as they were written"),
    ] {
        platform.guest("disk", arguments).initramfs(folder.path()).expect(0, &[text])?;
    }
    let missing = platform.guest("disk", &["size", "/etc/none"]).initramfs(folder.path());
    missing.expect(1, &["disk: "]).map(drop)
}
