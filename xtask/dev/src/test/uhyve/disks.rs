//! Tests of disks and the entropy device.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use super::Fixture;
use crate::test::child::ChildInput;
use crate::test::schedule::Tests;

/// Size of a disk in bytes.
const SIZE: usize = 64 * 1024;

/// Size in bytes of a disk that is divided among 100 threads.
const REGIONS_SIZE: usize = 9_766 * 512;

/// The first disk in a guest.
const DISK: &str = "/dev/vda";

pub(super) fn test<'a>(tests: &mut Tests<'a>, fixture: &'a Fixture<'_>) {
    fixture.add(tests, "a disk is written and read", move || check(fixture));
    fixture.add(tests, "threads use a disk, CPUs 2", move || in_threads(fixture));
    if fixture.platform.is_native() {
        for cpus in [1, 4] {
            fixture.add(tests, &format!("more threads than buffers use a disk, CPUs {cpus}"), move || {
                in_regions(fixture, cpus)
            });
        }
        fixture.add(tests, "a disk is opened without memory", move || {
            let (_folder, _, name) = disk(SIZE)?;
            let command = fixture.command("abi_calls", &["exhausted-disk"]).disk(&name);
            command.expect(0, &["ok"]).map(drop)
        });
    }
    fixture.add(tests, "bytes of a disk are read and written", move || bytes(fixture));
    fixture.add(tests, "a read-only disk", move || read_only(fixture));
    fixture.add(tests, "a disk that ends within a sector", move || odd_size(fixture));
    fixture.add(tests, "two disks", move || two(fixture));
    fixture.add(tests, "a disk of two guests", move || shared(fixture));
    fixture.add(tests, "/dev/hwrng", move || {
        // The probability that at least one of the 256 byte values does not occur among 2000 bytes is about 1
        // in 10.
        let outcome = fixture.command("disk", &["random", "/dev/hwrng", "2000"]).expect(0, &[" values"])?;
        let text = outcome.text();
        let count: u32 =
            text.split(' ').next().unwrap_or_default().parse().context("it printed no number")?;
        ensure!(count > 240, "there are only {count} of 256 values");
        Ok(())
    });
}

/// Returns a new disk of zeros: its folder, its path, and the path as text. The folder is removed when the
/// first value is dropped.
fn disk(size: usize) -> Result<(TempDir, PathBuf, String)> {
    let folder = TempDir::new().context("cannot make a temporary folder")?;
    let path = folder.path().join("disk.img");
    fs::write(&path, vec![0; size]).context("cannot write a disk")?;
    let name = path.display().to_string();
    Ok((folder, path, name))
}

/// Returns the byte that `kernel/tests/disk` writes at an offset.
fn pattern(offset: u64) -> u8 {
    let [low, middle, high, ..] = offset.wrapping_mul(0x9e37_79b9).to_le_bytes();
    low ^ middle ^ high
}

fn in_threads(fixture: &Fixture<'_>) -> Result<()> {
    let (_folder, path, name) = disk(SIZE)?;
    let command = fixture.command("disk", &["parallel", DISK, "8"]).cpus(2).disk(&name);
    command.expect(0, &["65536 bytes are as 8 threads wrote them"])?;
    let expected: Vec<u8> = (0..).take(SIZE).map(pattern).collect();
    ensure!(fs::read(path)? == expected, "the file differs from what the guest wrote");
    Ok(())
}

/// 100 threads have requests in flight, but the kernel has only 64 buffers. Adjacent regions share a block.
fn in_regions(fixture: &Fixture<'_>, cpus: u32) -> Result<()> {
    let (_folder, path, name) = disk(REGIONS_SIZE)?;
    let command = fixture.command("disk", &["regions", DISK, "100"]).cpus(cpus).disk(&name);
    command.expect(0, &["5000192 bytes are as 100 threads wrote their regions"])?;
    let expected: Vec<u8> = (0..).take(REGIONS_SIZE).map(pattern).collect();
    ensure!(fs::read(path)? == expected, "the file differs from what the guest wrote");
    Ok(())
}

fn check(fixture: &Fixture<'_>) -> Result<()> {
    let (_folder, path, name) = disk(SIZE)?;
    fixture
        .command("disk", &["check", DISK])
        .disk(&name)
        .expect(0, &["65536 bytes are as they were written"])?;
    let written = fs::read(path)?;
    let expected: Vec<u8> = (0..).take(SIZE).map(pattern).collect();
    ensure!(written == expected, "the file differs from what the guest wrote");
    fixture.command("disk", &["size", DISK]).disk(&name).expect(0, &["65536\n"])?;
    let outcome = fixture.command("disk", &["read", DISK, "1000", "3000"]).disk(&name).expect(0, &[])?;
    ensure!(outcome.output == expected[1000..4000], "the guest read other bytes than the file contains");
    Ok(())
}

fn bytes(fixture: &Fixture<'_>) -> Result<()> {
    let (_folder, path, name) = disk(SIZE)?;
    let bytes = b"within sectors".repeat(100);
    let machine = fixture.command("disk", &["write", DISK, "700"]).disk(&name);
    machine.reads(ChildInput::Bytes(bytes.clone())).expect(0, &[])?;
    let mut expected = vec![0; SIZE];
    expected[700..700 + bytes.len()].copy_from_slice(&bytes);
    ensure!(fs::read(path)? == expected, "the file differs from what the guest wrote");
    Ok(())
}

fn read_only(fixture: &Fixture<'_>) -> Result<()> {
    let (_folder, path, name) = disk(SIZE)?;
    let name = format!("{name}:ro");
    let machine = fixture.command("disk", &["write", DISK, "0"]).disk(&name);
    machine.reads(ChildInput::Bytes(b"x".to_vec())).expect(1, &["disk: "])?;
    ensure!(fs::read(path)? == vec![0; SIZE], "the file has changed");
    fixture.command("disk", &["size", DISK]).disk(&name).expect(0, &["65536\n"]).map(drop)
}

/// uhyve refuses a disk whose size is not a multiple of a sector, and does not change it.
fn odd_size(fixture: &Fixture<'_>) -> Result<()> {
    let (_folder, path, name) = disk(1000)?;
    fixture.command("disk", &["check", DISK]).disk(&name).expect(125, &["no multiple of 512"])?;
    ensure!(fs::read(path)? == [0; 1000], "the file was changed");
    Ok(())
}

fn two(fixture: &Fixture<'_>) -> Result<()> {
    let (folder, _, first) = disk(SIZE)?;
    let second = folder.path().join("second.img");
    fs::write(&second, [b"second".as_slice(), &[0; 4090]].concat())?;
    let second = second.display().to_string();
    let machine = |words: &[&str]| fixture.command("disk", words).disk(&first).disk(&second);
    machine(&["size", DISK]).expect(0, &["65536\n"])?;
    machine(&["size", "/dev/vdb"]).expect(0, &["4096\n"])?;
    machine(&["read", "/dev/vdb", "0", "6"]).expect(0, &["second"])?;
    machine(&["stat", "/dev/vdb"]).expect(0, &["device of length 0"])?;
    machine(&["stat", "/dev/hwrng"]).expect(0, &["device of length 0"])?;
    machine(&["stat", "/dev/vdc"]).expect(1, &["disk: "])?;
    machine(&["stat", "/no/such/file"]).expect(1, &["disk: "])?;
    machine(&["size", "/dev/vdc"]).expect(1, &["disk: "]).map(drop)
}

/// Only one guest at a time may have a disk that it can write to. Any number of guests may have the same disk
/// read-only.
fn shared(fixture: &Fixture<'_>) -> Result<()> {
    let (_folder, _, name) = disk(SIZE)?;
    let read_only = format!("{name}:ro");
    let in_use: (i32, &[&str]) = (125, &["is in use by another machine"]);
    let cases =
        [(&name, &name, in_use), (&name, &read_only, in_use), (&read_only, &read_only, (0, &["65536\n"]))];
    for (first, second, (code, texts)) in cases {
        let holder = fixture.command("stdin", &[]).disk(first).waits().start()?;
        holder.has_printed(b"READY")?;
        let result = fixture.command("disk", &["size", DISK]).disk(second).expect(code, texts);
        holder.signal("TERM")?;
        holder.end()?.check(143, &[])?;
        result.with_context(|| format!("{first} in one guest, {second} in the other"))?;
    }
    Ok(())
}
