//! `cargo xtask addr2line`: prints the source lines of addresses in an image, from the image's debugging
//! information.
//!
//! A guest has no debugging information, so it prints addresses, relative to the image: in the report of a
//! fault, and in the backtrace of a panic with `RUST_BACKTRACE=full`.

use std::fmt::Write as _;
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};

use addr2line::Loader;
use anyhow::{Context, Result, anyhow, ensure};

/// Arguments of the command.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The image, as cargo has built it
    image: PathBuf,
    /// Addresses relative to the image, such as 0x1c5a0. Without, standard input is copied, and each frame of
    /// a backtrace in it is followed by its lines
    addresses: Vec<String>,
}

/// Prints the source lines of the addresses in the arguments, or else of the backtraces in standard input.
pub(crate) fn main(arguments: &Arguments) -> Result<()> {
    if arguments.addresses.is_empty() {
        return annotate(&arguments.image, io::stdin().lock(), io::stdout().lock());
    }
    let loader = open(&arguments.image)?;
    for text in &arguments.addresses {
        let address =
            parse(text).with_context(|| format!("{text} is no address: 0x and hexadecimal digits"))?;
        print!("{text}\n{}", lines_of(&loader, address)?);
    }
    Ok(())
}

fn parse(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// Copies text, and adds the source lines after each frame of a backtrace of the image.
pub(crate) fn annotate(image: &Path, input: impl BufRead, output: impl Write) -> Result<()> {
    let loader = open(image)?;
    copy(input, output, |address| lines_of(&loader, address))
}

/// Opens the debugging information of an image.
fn open(image: &Path) -> Result<Loader> {
    let name = image.display();
    ensure!(image.is_file(), "there is no file {name}");
    let loader = Loader::new(image).map_err(|error| anyhow!("cannot read {name}: {error}"))?;
    ensure!(
        loader.get_section_range(b".debug_info").is_some(),
        "{name} has no debugging information: build it with `debug = \"line-tables-only\"` in the profile, and do not strip it"
    );
    Ok(loader)
}

fn copy(input: impl BufRead, mut output: impl Write, lines: impl Fn(u64) -> Result<String>) -> Result<()> {
    for line in input.split(b'\n') {
        let line = line.context("cannot read standard input")?;
        let address = frame(&String::from_utf8_lossy(&line));
        let lines = address.map_or(Ok(String::new()), &lines)?;
        output
            .write_all(&line)
            .and_then(|()| write!(output, "\n{lines}"))
            .context("cannot write the lines")?;
    }
    Ok(())
}

/// Returns the address to look up for a line `NUMBER: 0xADDRESS ...`. For a fault that is the address itself.
/// For a return address it is the byte before, because the return address may already belong to the next
/// source line.
fn frame(line: &str) -> Option<u64> {
    let (number, rest) = line.trim_start().split_once(':')?;
    let number: u32 = number.parse().ok()?;
    let mut words = rest.split_whitespace();
    let address = parse(words.next()?)?;
    // In the backtraces of std, a dash follows the address, and the first address is a return address, too.
    let is_fault = number == 0 && words.next() != Some("-");
    Some(if is_fault { address } else { address.saturating_sub(1) })
}

/// Returns a line of text for each function at an address. The innermost inlined function is first.
fn lines_of(loader: &Loader, address: u64) -> Result<String> {
    let error = |error| anyhow!("cannot read the debugging information of {address:#x}: {error}");
    let mut frames = loader.find_frames(address).map_err(error)?;
    let mut lines = String::new();
    while let Some(frame) = frames.next().map_err(|reason| error(reason.into()))? {
        let Some(location) = frame.location else { continue };
        let (file, line) = (location.file.unwrap_or("?"), location.line.unwrap_or_default());
        let function = frame.function.and_then(|name| name.demangle().ok().map(|name| name.into_owned()));
        let function = function.map(|name| format!(" ({name})")).unwrap_or_default();
        writeln!(lines, "             at {file}:{line}{function}")?;
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::{copy, frame};

    #[test]
    fn frames_of_faults_and_panics_are_recognised() {
        let fault = ["     0: 0x355b1 faults::store+0x1", "    12: 0x4e3f5 hermit_hal::thread::run+0xb"];
        assert_eq!(fault.map(frame), [Some(0x355b1), Some(0x4e3f4)]);
        let panic = ["   0:            0x1dc5a - core::panicking::panic_fmt", "  10:   0x10 - main"];
        assert_eq!(panic.map(frame), [Some(0x1dc59), Some(0xf)]);
        for line in
            ["", "  at 0x00000502b468a5b1 on CPU 0", "a: 0x1 b", "1: 1 b", "   1: core::panic", "1: 0xg"]
        {
            assert_eq!(frame(line), None, "{line}");
        }
    }

    #[test]
    fn text_is_copied_with_lines_behind_frames() {
        let text = b"hello \xff\n   3: 0x10 f\nend\n";
        let mut output = Vec::new();
        copy(&text[..], &mut output, |address| Ok(format!("  at {address}\n"))).unwrap();
        assert_eq!(output, b"hello \xff\n   3: 0x10 f\n  at 15\nend\n");
    }
}
