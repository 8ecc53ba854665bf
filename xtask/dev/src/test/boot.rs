//! Tests of booting: the boot protocols, a loader without symbols, boot images, and images that the loader
//! rejects.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use hermit_interface::exit::NOT_STARTED;
use hermit_interface::memory_size::MemorySize;
use hermit_machines::qemu::{Board, Guest};
use hermit_options::open::Opener;
use hermit_options::root::Initramfs;
use hermit_toolchain::build;
use tempfile::{NamedTempFile, TempDir};

use super::machine_types::{Qemu, expect};
use super::schedule::Tests;
use xtask::image::{MULTIBOOT_MAGIC, fuse};

/// A test that boots an image. The test may keep files in the folder.
type BootTest = fn(&Qemu<'_>, &Path) -> Result<()>;

pub(super) fn test<'a>(tests: &mut Tests<'a>, qemu: &'a Qemu<'_>) -> Result<()> {
    refusals(tests, qemu)?;
    let boots: [(&str, BootTest); 6] = [
        ("boot: by PVH", by_pvh),
        ("boot: by a loader without symbols", stripped),
        ("boot: in 4 MiB of memory", in_little_memory),
        ("boot: fused, by multiboot and by PVH", fused),
        ("boot: fused with an initramfs, by multiboot and by PVH", fused_with_initramfs),
        ("refused: an initramfs that is damaged or too large", bad_initramfs),
    ];
    for (name, boot) in boots {
        tests.add(name, move || {
            let folder = TempDir::new().context("cannot make a temporary folder")?;
            boot(qemu, folder.path())
        });
    }
    Ok(())
}

fn refusals<'a>(tests: &mut Tests<'a>, qemu: &'a Qemu<'_>) -> Result<()> {
    let image = fs::read(qemu.image("hello_world")).context("cannot read an example")?;
    let foreign = of_another_abi(&image)?;
    // Reads the executable of this process by `/proc/self/exe`. The file at its path may have been replaced,
    // because the tests are compiled while this program runs.
    let linux = fs::read("/proc/self/exe").context("cannot read this program")?;
    let cases: [(&str, &[u8], &str); 8] = [
        ("a Linux program", &linux, "the ABI note is missing"),
        ("an image truncated at 1 KiB", &image[..1024], "truncated"),
        ("an image truncated at half", &image[..image.len() / 2], "truncated"),
        ("an image without its last byte", &image[..image.len() - 1], "truncated"),
        ("an image of another ABI", &foreign, "built for ABI version 99"),
        ("garbage", &[0xa5; 5000], "not an ELF file"),
        ("a text", b"#!/bin/sh\necho hello\n", "not an ELF file"),
        ("an empty file", b"", "not an ELF file"),
    ];
    for (name, bytes, text) in cases {
        let bytes = bytes.to_vec();
        tests.add(format!("refused: {name}"), move || {
            let file = NamedTempFile::new().context("cannot make a temporary file")?;
            fs::write(&file, bytes)?;
            let guest = qemu.guest(file.path(), &[]);
            let output = expect(&guest, b"", NOT_STARTED, &["hermit-loader: error: ", text])?;
            let lines = output.iter().filter(|&&byte| byte == b'\n').count();
            ensure!(lines == 1, "{lines} lines: {}", String::from_utf8_lossy(&output));
            Ok(())
        });
    }
    Ok(())
}

/// Returns a copy of an image whose note has the ABI version 99.
pub(super) fn of_another_abi(image: &[u8]) -> Result<Vec<u8>> {
    let mut foreign = image.to_vec();
    let note = find(&foreign, b"HERMIT\0\0")? + 8;
    foreign[note] = 99;
    Ok(foreign)
}

/// Returns the offset of the first occurrence of `pattern`.
fn find(bytes: &[u8], pattern: &[u8]) -> Result<usize> {
    bytes
        .windows(pattern.len())
        .position(|window| window == pattern)
        .context("an expected pattern is missing")
}

/// Makes a copy of a loader without the multiboot magic number, so that QEMU boots it by PVH. Returns the
/// path of the copy.
fn without_multiboot(loader: &Path, copy: PathBuf) -> Result<PathBuf> {
    let mut bytes = fs::read(loader)?;
    let offset = find(&bytes, &MULTIBOOT_MAGIC.to_le_bytes())?;
    bytes[offset..offset + 4].fill(0);
    fs::write(&copy, bytes)?;
    Ok(copy)
}

fn by_pvh(qemu: &Qemu<'_>, folder: &Path) -> Result<()> {
    let kernel = without_multiboot(&qemu.loader, folder.join("pvh"))?;
    let guest = Guest { kernel, board: Board::Pc, ..qemu.example("hello_world", &["one"]) };
    expect(&guest, b"", 0, &["Hello, world!", "argument 1: one"]).map(drop)
}

/// A loader boots even if its file has no symbols and sections. QEMU then puts the command line right after
/// the last loaded segment.
fn stripped(qemu: &Qemu<'_>, folder: &Path) -> Result<()> {
    let kernel = folder.join("stripped");
    build::strip(&qemu.loader, &kernel)?;
    for board in [Board::Microvm, Board::Pc] {
        let guest = Guest { kernel: kernel.clone(), board, ..qemu.example("hello_world", &["one"]) };
        expect(&guest, b"", 0, &["Hello, world!", "argument 1: one"])?;
    }
    Ok(())
}

/// hello_world boots in 4 MiB, although its debugging information alone is larger than 5 MiB.
fn in_little_memory(qemu: &Qemu<'_>, _: &Path) -> Result<()> {
    let memory = MemorySize::unchecked_mebibytes(4);
    for board in [Board::Microvm, Board::Pc, Board::Q35] {
        let guest = Guest { memory, board, ..qemu.example("hello_world", &["one"]) };
        expect(&guest, b"", 0, &["Hello, world!", "argument 1: one"])?;
    }
    Ok(())
}

fn fused(qemu: &Qemu<'_>, folder: &Path) -> Result<()> {
    let file = fuse(&fs::read(&qemu.loader)?, &fs::read(qemu.image("hello_world"))?, &[])?;
    let multiboot = folder.join("fused");
    fs::write(&multiboot, file)?;
    let pvh = without_multiboot(&multiboot, folder.join("fused-pvh"))?;
    for kernel in [multiboot, pvh] {
        let guest = Guest { kernel, image: None, board: Board::Pc, ..qemu.example("hello_world", &["one"]) };
        expect(&guest, b"", 0, &["Hello, world!", "argument 1: one"])?;
    }
    Ok(())
}

/// Returns a tar archive with one file, which contains this text.
fn tree_with(folder: &Path, text: &str) -> Result<Vec<u8>> {
    let initramfs = folder.join("tree");
    fs::create_dir_all(&initramfs)?;
    fs::write(initramfs.join("file"), text)?;
    Ok(Initramfs::load(&Opener::default(), &initramfs, 1 << 20)?.archive)
}

/// An initramfs that QEMU passes as a module replaces the initramfs in the boot image.
fn fused_with_initramfs(qemu: &Qemu<'_>, folder: &Path) -> Result<()> {
    let archive = tree_with(folder, "fused in")?;
    let file = fuse(&fs::read(&qemu.loader)?, &fs::read(qemu.image("disk"))?, &archive)?;
    let multiboot = folder.join("fused");
    fs::write(&multiboot, file)?;
    let other = folder.join("other.tar");
    fs::write(&other, tree_with(folder, "a module")?)?;
    let pvh = without_multiboot(&multiboot, folder.join("fused-pvh"))?;
    for kernel in [multiboot, pvh] {
        for (initramfs, text) in [(None, "fused in"), (Some(other.clone()), "a module")] {
            let disk = qemu.example("disk", &["read", "/file", "0", "8"]);
            let guest = Guest { kernel: kernel.clone(), image: None, initramfs, board: Board::Pc, ..disk };
            expect(&guest, b"", 0, &[text])?;
        }
    }
    Ok(())
}

fn bad_initramfs(qemu: &Qemu<'_>, folder: &Path) -> Result<()> {
    let mut archive = tree_with(folder, "text")?;
    archive.truncate(archive.len() - 1024);
    for (size, text) in [(archive.len(), "hermit: error: the tree of files"), (40 << 20, "too little memory")]
    {
        archive.resize(size, 0);
        let initramfs = folder.join("tree.tar");
        fs::write(&initramfs, &archive)?;
        let disk = qemu.example("disk", &["read", "/file", "0", "4"]);
        let memory = MemorySize::unchecked_mebibytes(32);
        let guest = Guest { initramfs: Some(initramfs), memory, ..disk };
        expect(&guest, b"", NOT_STARTED, &[text])?;
    }
    Ok(())
}
