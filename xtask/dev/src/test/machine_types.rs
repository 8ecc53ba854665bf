//! Tests on QEMU's machine types: microvm, the classic PC and q35.

use std::ffi::OsString;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use hermit_interface::exit::NOT_STARTED;
use hermit_machines::qemu::{Board, End, Guest, Input};
use hermit_toolchain::setup;

use super::images::Images;
use super::platform::LIMIT;
use super::schedule::Tests;
use xtask::program;

/// QEMU, with the loader, images, and uhyve, which connects guests to the network.
#[derive(Debug)]
pub(super) struct Qemu<'a> {
    pub(super) loader: PathBuf,
    pub(super) uhyve: PathBuf,
    images: &'a Images,
}

impl<'a> Qemu<'a> {
    pub(super) fn new(images: &'a Images) -> Result<Self> {
        Ok(Self { loader: setup::loader()?, uhyve: setup::uhyve()?, images })
    }

    /// Returns the image of a program.
    pub(super) fn image(&self, name: &str) -> PathBuf {
        self.images.image(name)
    }

    /// Returns a guest with an image, on the default machine type.
    pub(super) fn guest(&self, image: &Path, arguments: &[&str]) -> Guest {
        Guest {
            arguments: arguments.iter().map(OsString::from).collect(),
            timeout: Some(LIMIT),
            ..Guest::new(self.loader.clone(), Some(image.to_owned()), program::name_of(image))
        }
    }

    /// Returns a guest with the image of a program, on the default machine type.
    pub(super) fn example(&self, name: &str, arguments: &[&str]) -> Guest {
        self.guest(&self.image(name), arguments)
    }
}

/// Runs a guest. Checks its exit status, and that it prints each text. Returns its output.
pub(super) fn expect(guest: &Guest, input: &[u8], status: u8, texts: &[&str]) -> Result<Vec<u8>> {
    let (end, output) = guest.capture(Input::Bytes(input.to_vec()))?;
    let text = String::from_utf8_lossy(&output);
    let mut wrong = String::new();
    if end != End::Exited(status) {
        writeln!(wrong, "it ended with {end:?} instead of {status}")?;
    }
    for expected in texts.iter().filter(|expected| !text.contains(**expected)) {
        writeln!(wrong, "it did not print {expected:?}")?;
    }
    ensure!(wrong.is_empty(), "{wrong}--- console:\n{text}\n---");
    Ok(output)
}

pub(super) fn test<'a>(tests: &mut Tests<'a>, qemu: &'a Qemu<'_>) {
    let cases: [(&str, &[&str], &str, &str); 3] = [
        ("hello_world", &[], "", "Hello, world!"),
        ("stdin", &[], "hello", "HELLO"),
        ("faults", &["time"], "", "ok"),
    ];
    for (name, arguments, input, text) in cases {
        tests.add(format!("qemu, the classic PC: {name}"), move || {
            let guest = Guest { board: Board::Pc, ..qemu.example(name, arguments) };
            expect(&guest, input.as_bytes(), 0, &[text]).map(drop)
        });
    }
    for (name, arguments, text) in
        [("hello_world", &["one"][..], "argument 1: one"), ("faults", &["time"], "ok")]
    {
        tests.add(format!("qemu, q35: {name}"), move || {
            let guest = Guest { board: Board::Q35, ..qemu.example(name, arguments) };
            expect(&guest, b"", 0, &[text]).map(drop)
        });
    }
    tests.add("qemu: firmware tables above 1 GiB", move || {
        let memory = "3G".parse().map_err(anyhow::Error::msg)?;
        let guest = qemu.example("threads", &["parallel", "--cpus-expected", "4"]);
        expect(&Guest { memory, cpus: 4, ..guest }, b"", 0, &["ok"]).map(drop)
    });
    tests.add("qemu: a machine without a real-time clock", move || {
        // Without a real-time clock, the program gets a time that starts in 1970.
        let guest = qemu.example("hello_world", &[]).with_options(&["-M", "rtc=off"]);
        expect(&guest, b"", 0, &["time: 1970-01-01T00:0"]).map(drop)
    });
    tests.add("qemu: the loader without an image", move || {
        let guest = Guest { image: None, ..qemu.example("hello_world", &[]) };
        expect(&guest, b"", NOT_STARTED, &["hermit-loader: error: no image"]).map(drop)
    });
}
