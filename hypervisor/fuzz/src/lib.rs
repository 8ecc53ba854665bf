//! What fuzzers call: each takes arbitrary bytes and panics if the system does with them what it must not.
//!
//! `cargo xtask test fuzz` has a fuzzer look for such bytes; `hypervisor/tests/seeds.rs`, of which this file is a
//! module too, hands over the bytes in `seeds`, a folder for each target.

use clap::Parser;
use hermit_boot::{LoadError, Randomness};
use hermit_interface::boot_info::{BootInfo, BootInfoError};
use hermit_interface::command_line::{CommandLine, Encoder, NetworkOptions};
use hermit_interface::image;
use uhyve::cli::Arguments;
use uhyve::memory::Memory;

pub use uhyve::devices::fuzzing::{block, console, entropy, frames, network, registers};

/// A target.
pub type Target = fn(&[u8]);

/// All targets, by the names of their programs and of their seeds' folders.
pub const TARGETS: [(&str, Target); 10] = [
    ("image", image),
    ("registers", registers),
    ("console", console),
    ("entropy", entropy),
    ("block", block),
    ("network", network),
    ("frames", frames),
    ("command_line", command_line),
    ("boot_info", boot_info),
    ("arguments", arguments),
];

/// `data` is an image's file, which is put into a small machine's memory. Its last bytes also say where it goes.
///
/// # Panics
///
/// The image is put where there is no free memory, or is not where the boot information says.
pub fn image(data: &[u8]) {
    let Ok(image) = image::check(data) else { return };
    // All names are reachable, or there are none.
    let _: Option<image::SymbolTable<'_>> = image.symbols();
    let mut memory = Memory::new("8M".parse().expect("a size")).expect("the host has memory");
    let (mut free, later) = memory.free();
    let before = free.total();
    let loaded = hermit_boot::load(&mut memory, &mut free, &image, randomness(data), 0);
    let loaded = match loaded {
        Ok(loaded) => loaded,
        Err(error) => return assert_eq!(error, LoadError::OutOfMemory),
    };
    assert!(free.total() < before, "an image takes memory");
    let place = loaded.info.image;
    assert_eq!((place.size, place.start % image.align), (image.size, 0));
    assert_eq!(loaded.entry, place.start + image.entry);
    let handed_over = loaded.hand_over(&mut memory, &mut free, later.as_slice(), &[], b"--");
    assert!(handed_over.is_ok_and(|address| address != 0) || free.total() < before / 2);
}

fn randomness(data: &[u8]) -> Randomness {
    let number = |index: usize| {
        let end = data.len().saturating_sub(8 * index);
        data.get(..end).and_then(|data| data.last_chunk()).map_or(0, |bytes| u64::from_le_bytes(*bytes))
    };
    Randomness { image: number(0), direct_map: number(1), free_addresses: number(2) }
}

/// `data` is a command line; what it says is written and read again.
///
/// # Panics
///
/// Something else is read.
pub fn command_line(data: &[u8]) {
    let parsed = CommandLine::parse(data);
    let mut encoder = Encoder::new();
    parsed.argv0.iter().for_each(|name| encoder.argv0(name));
    parsed.env.iter().for_each(|variable| encoder.env(variable));
    parsed.args.iter().for_each(|argument| encoder.arg(argument));
    let network = NetworkOptions::parse(data);
    network.ip.iter().for_each(|&ip| encoder.ip(ip));
    network.gateways.iter().for_each(|&address| encoder.gateway(address));
    network.nameservers.iter().for_each(|&address| encoder.nameserver(address));
    network.hostname.iter().for_each(|name| encoder.hostname(name));
    let line = encoder.finish();
    // Only boot loaders write of devices, and nobody writes what makes no sense.
    let expected = CommandLine { devices: Vec::new(), virtio_console: false, ..parsed };
    assert_eq!(CommandLine::parse(&line), expected, "what is written is read again");
    let expected = NetworkOptions { malformed: Vec::new(), ..network };
    assert_eq!(NetworkOptions::parse(&line), expected, "what is written is read again");
}

/// `data` is boot information, which is written and read again.
///
/// # Panics
///
/// What is read is not what was written.
pub fn boot_info(data: &[u8]) {
    let bytes = Aligned::new(data);
    let Ok(parsed) = BootInfo::parse(bytes.get()) else { return };
    assert!(parsed.fixed.size() <= data.len(), "it was all there");
    let mut written = Vec::new();
    let sink = |part: &[u8]| written.extend_from_slice(part);
    let result = parsed.fixed.write(parsed.regions, parsed.devices, parsed.command_line, sink);
    assert_eq!(result, Ok(()));
    assert_eq!(data.get(..parsed.fixed.size()), Some(written.as_slice()));
    let cut = written.len() - 1;
    let cut_off = Aligned::new(written.get(..cut).unwrap_or_default());
    assert_eq!(BootInfo::parse(cut_off.get()).err(), Some(BootInfoError::Truncated));
}

/// Bytes at an address that is a multiple of eight.
struct Aligned {
    bytes: Vec<u8>,
    start: usize,
}

impl Aligned {
    fn new(data: &[u8]) -> Self {
        let mut bytes: Vec<u8> = Vec::with_capacity(data.len() + 8);
        let start = bytes.as_ptr().align_offset(8);
        bytes.resize(start, 0);
        bytes.extend_from_slice(data);
        Self { bytes, start }
    }

    fn get(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }
}

/// `data` is what follows the command's name, each word on a line of its own.
///
/// # Panics
///
/// A machine is described that cannot be.
pub fn arguments(data: &[u8]) {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    let words = data.split(|&byte| byte == b'\n').map(OsStr::from_bytes);
    let words = [OsStr::new("uhyve")].into_iter().chain(words);
    let Ok(arguments) = Arguments::try_parse_from(words) else { return };
    let Ok(config) = arguments.config() else { return };
    assert!((1..=64).contains(&config.cpus.get()));
    assert!(config.memory.bytes() > 0);
    assert!(config.disks.iter().all(|disk| !disk.file.as_os_str().is_empty()));
}
