//! Fuzz targets: each takes arbitrary bytes, and panics if the system under test violates an invariant.
//!
//! `cargo xtask test fuzz` searches for such bytes with libFuzzer. Without `cfg(fuzzing)`, the programs run
//! their targets on the files that the command line names.

#![forbid(unsafe_code)]

mod fields;
mod usernet;

use std::{env, fs, io};

use clap::Parser;
use hermit_boot::{LoadError, Randomness};
use hermit_interface::MAX_NAME;
use hermit_interface::boot_info::{BootInfo, BootInfoError};
use hermit_interface::command_line::{CommandLine, Encoder, MountOptions, NetworkOptions};
use hermit_interface::image;
use hermit_interface::tar::{Content, Entries};
use uhyve::command::cli::Arguments;
use uhyve::memory::Memory;

pub use self::usernet::usernet;
pub use uhyve::devices::fuzzing::{block, console, egress, entropy, files, frames, network, registers};
pub use uhyve::gdb::fuzzing::packets as gdb;

/// A fuzz target.
pub type Target = fn(&[u8]);

/// All targets, by the names of their programs and of their files in `seeds`.
pub const TARGETS: [(&str, Target); 16] = [
    ("image", image),
    ("image_fields", image_fields),
    ("registers", registers),
    ("console", console),
    ("entropy", entropy),
    ("block", block),
    ("files", files),
    ("network", network),
    ("frames", frames),
    ("egress", egress),
    ("command_line", command_line),
    ("boot_info", boot_info),
    ("arguments", arguments),
    ("gdb", gdb),
    ("tar", tar),
    ("usernet", usernet),
];

/// Runs a target on the files that the command line names, without libFuzzer.
///
/// # Errors
///
/// A file cannot be read.
pub fn replay(target: Target) -> io::Result<()> {
    for file in env::args_os().skip(1) {
        target(&fs::read(file)?);
    }
    Ok(())
}

/// Loading of an image: `data` is the file, and its last bytes are the random numbers of the address space
/// layout.
///
/// # Panics
///
/// The image is loaded outside free memory, or not at the address in the boot information.
pub fn image(data: &[u8]) {
    let Ok(image) = image::check(data) else { return };
    // The number of segments bounds the passes over the file.
    assert!(image.segments().count() <= usize::from(image::MAX_PROGRAM_HEADERS), "too many segments");
    // Validates the symbol table, if there is one.
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
    let region = loaded.info.image;
    assert_eq!((region.size, region.start % image.align), (image.size, 0));
    assert_eq!(loaded.entry, region.start + image.entry);
    let handed_over = loaded.hand_over(&mut memory, &mut free, later.as_slice(), &[], b"--");
    assert!(handed_over.is_ok_and(|address| address != 0) || free.total() < before / 2);
}

/// Like [`image`], for an image that is valid except for the fields of its ELF structures that `data`
/// changes.
///
/// # Panics
///
/// As [`image`].
pub fn image_fields(data: &[u8]) {
    image(&fields::image(data));
}

fn randomness(data: &[u8]) -> Randomness {
    let number = |index: usize| {
        let end = data.len().saturating_sub(8 * index);
        data.get(..end).and_then(|data| data.last_chunk()).map_or(0, |bytes| u64::from_le_bytes(*bytes))
    };
    Randomness { image: number(0), direct_map: number(1), free_addresses: number(2) }
}

/// Kernel command line: `data` is parsed, encoded and parsed again.
///
/// # Panics
///
/// The results of parsing differ.
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
    network.search.iter().for_each(|domain| encoder.search(domain));
    network.congestion.iter().for_each(|&control| encoder.congestion(control));
    network.host.iter().for_each(|&host| encoder.host(host));
    let mut mounts = MountOptions::parse(data).expect("the host has memory").mounts;
    // The encoder accepts only UTF-8 texts as tags.
    mounts.retain(|mount| str::from_utf8(&mount.tag).is_ok());
    for mount in &mounts {
        encoder.mount(&String::from_utf8_lossy(&mount.tag), &mount.path, mount.is_read_only);
    }
    let line = encoder.finish();
    // The encoder has no device options, which only boot loaders add, and no malformed or misplaced words.
    let expected = CommandLine {
        devices: Vec::new(),
        misplaced: None,
        virtio_console: false,
        virtio_stdin: false,
        ..parsed
    };
    assert_eq!(CommandLine::parse(&line), expected, "parsing inverts encoding");
    let expected = NetworkOptions { malformed: Vec::new(), ..network };
    assert_eq!(NetworkOptions::parse(&line), expected, "parsing inverts encoding");
    let mount_options = MountOptions::parse(&line).expect("the host has memory");
    assert_eq!(mount_options.mounts, mounts, "parsing inverts encoding");
}

/// Boot information: `data` is parsed and written again.
///
/// # Panics
///
/// The written bytes differ from `data`, or a truncated copy is valid.
pub fn boot_info(data: &[u8]) {
    let bytes = Aligned::new(data);
    let Ok(parsed) = BootInfo::parse(bytes.get()) else { return };
    assert!(parsed.fixed.size() <= data.len(), "the size includes all parts");
    let mut written = Vec::new();
    let sink = |part: &[u8]| written.extend_from_slice(part);
    let result = parsed.fixed.write(parsed.regions, parsed.devices, parsed.command_line, sink);
    assert_eq!(result, Ok(()));
    assert_eq!(data.get(..parsed.fixed.size()), Some(written.as_slice()));
    let length = written.len() - 1;
    let truncated = Aligned::new(written.get(..length).unwrap_or_default());
    assert_eq!(BootInfo::parse(truncated.get()).err(), Some(BootInfoError::Truncated));
}

/// Bytes at an address that is a multiple of 8.
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

/// Command line of uhyve: `data` is one argument per line.
///
/// # Panics
///
/// The resulting configuration is invalid.
pub fn arguments(data: &[u8]) {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    let arguments = data.split(|&byte| byte == b'\n').map(OsStr::from_bytes);
    let arguments = [OsStr::new("uhyve")].into_iter().chain(arguments);
    let Ok(arguments) = Arguments::try_parse_from(arguments) else { return };
    let Ok(config) = arguments.config() else { return };
    assert!((1..=64).contains(&config.cpus.get()));
    assert!(config.memory.bytes() > 0);
    assert!(config.disks.iter().all(|disk| !disk.file.as_os_str().is_empty()));
}

/// Reading of a tar archive, first unchanged, then with corrected checksums. Without the correction, a wrong
/// checksum would reject nearly every changed header.
///
/// # Panics
///
/// Contents are not those of the archive, or a name is invalid.
pub fn tar(data: &[u8]) {
    read_archive(data);
    let mut summed = data.to_vec();
    summed.chunks_exact_mut(512).for_each(set_checksum);
    read_archive(&summed);
}

/// Sets the checksum of a header, unless it is a block of zeros.
fn set_checksum(block: &mut [u8]) {
    if block.iter().all(|byte| *byte == 0) {
        return;
    }
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

fn read_archive(archive: &[u8]) {
    let inside = |bytes: &[u8]| {
        let (outer, inner) = (archive.as_ptr_range(), bytes.as_ptr_range());
        bytes.is_empty() || outer.start <= inner.start && inner.end <= outer.end
    };
    let is_name =
        |name: &[u8]| !name.is_empty() && name.len() <= MAX_NAME && name != b".." && !name.contains(&b'/');
    for entry in Entries::new(archive).map_while(Result::ok) {
        assert!(entry.path.names().all(is_name), "{}", entry.path);
        match entry.content {
            Content::File(bytes) | Content::Symlink(bytes) => assert!(inside(bytes)),
            Content::HardLink(target) => assert!(target.names().all(is_name), "{target}"),
            Content::Directory | Content::Special => {}
        }
    }
}
