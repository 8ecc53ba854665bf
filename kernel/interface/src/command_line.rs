//! The kernel command line, which has the program's arguments and environment.
//!
//! Words are separated by white space. Words before `--` are options of the form `name=value`; words after it
//! are the program's arguments. [`NetworkOptions`] and [`MountOptions`] are parsed separately from the other
//! options. A backslash escapes the next byte, and double quotes enclose white space (an empty argument is
//! `""`). Words that are not known options are ignored, because boot loaders prepend words (GRUB and QEMU
//! prepend the kernel's file name), and other kernels have other options. But if a line without `--` has a
//! word that does not look like an option, the user has made an error ([`CommandLine::misplaced`]).
//!
//! ```
//! use hermit_interface::command_line::CommandLine;
//!
//! let line = CommandLine::parse(b"kernel.elf env=A=1 console=hvc0 -- one \"two words\"");
//! assert_eq!(line.env, [b"A=1"]);
//! assert_eq!(line.args, [&b"one"[..], b"two words"]);
//! assert!(line.virtio_console);
//! ```

mod mounts;
mod network;

use alloc::vec::Vec;

use crate::boot_info::{MmioDevice, Region};

pub use mounts::{MountOption, MountOptions};
pub use network::{Cidr, HostAddress, Ip, NetworkOptions, host_address, hostname, is_hostname};

/// Encodes a command line; the inverse of [`CommandLine::parse`].
#[derive(Debug, Default, Clone)]
pub struct Encoder {
    options: Vec<u8>,
    arguments: Vec<u8>,
}

impl Encoder {
    /// Creates an empty command line.
    #[must_use]
    pub const fn new() -> Self {
        Self { options: Vec::new(), arguments: Vec::new() }
    }

    /// Sets the program's name (`argv[0]`).
    pub fn argv0(&mut self, name: &[u8]) {
        self.option(b"argv0=", name);
    }

    /// Adds an environment variable, `KEY=VALUE`.
    pub fn env(&mut self, variable: &[u8]) {
        self.option(b"env=", variable);
    }

    /// Adds a program argument.
    pub fn arg(&mut self, argument: &[u8]) {
        self.arguments.push(b' ');
        quote(&mut self.arguments, argument);
    }

    /// Returns the encoded command line.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        self.options.extend_from_slice(b"--");
        self.options.append(&mut self.arguments);
        self.options
    }

    fn option(&mut self, name: &[u8], value: &[u8]) {
        quote(&mut self.options, &[name, value].concat());
        self.options.push(b' ');
    }
}

fn quote(line: &mut Vec<u8>, word: &[u8]) {
    line.push(b'"');
    for &byte in word {
        if matches!(byte, b'"' | b'\\') {
            line.push(b'\\');
        }
        line.push(byte);
    }
    line.push(b'"');
}

/// A parsed command line, without its network options.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct CommandLine {
    /// The program's name (`argv[0]`), if the line has it.
    pub argv0: Option<Vec<u8>>,
    /// Environment variables, each `KEY=VALUE`.
    pub env: Vec<Vec<u8>>,
    /// Program arguments, without `argv[0]`.
    pub args: Vec<Vec<u8>>,
    /// Virtio-mmio devices: `virtio_mmio.device=SIZE@ADDRESS:LINE`, a parameter of Linux that QEMU's microvm
    /// and Firecracker append.
    pub devices: Vec<MmioDevice>,
    /// The first word that looks like an argument of the program, if the line has no `--`.
    pub misplaced: Option<Vec<u8>>,
    /// True if the console is the first virtio console instead of the serial port (`console=hvc0`, as in
    /// Linux).
    pub virtio_console: bool,
    /// True if only standard input comes from the first virtio console instead of the serial port
    /// (`stdin=hvc0`).
    pub virtio_stdin: bool,
}

/// Options of Linux without a value, which boot loaders and VMMs add for any kernel.
const FLAGS_OF_LINUX: [&[u8]; 5] = [b"ro", b"rw", b"quiet", b"debug", b"splash"];

/// Returns true if a word before `--` is not an option: it has neither a value nor the name of a file.
fn looks_like_argument(word: &[u8]) -> bool {
    !word.iter().any(|byte| matches!(byte, b'=' | b'/')) && !FLAGS_OF_LINUX.contains(&word)
}

/// Parses `SIZE@ADDRESS:LINE`, with an optional `:ID` that is ignored.
fn device(text: &[u8]) -> Option<MmioDevice> {
    let (size, rest) = core::str::from_utf8(text).ok()?.split_once('@')?;
    let mut numbers = rest.split(':');
    let registers = Region { start: number(numbers.next()?)?, size: number(size)? };
    let line = u32::try_from(number(numbers.next()?)?).ok()?;
    Some(MmioDevice { registers, line, kind: 0 })
}

/// Parses a number as Linux does (`memparse`): decimal or hexadecimal, with an optional suffix K, M or G.
fn number(text: &str) -> Option<u64> {
    let shift = match text.as_bytes().last()? {
        b'K' | b'k' => 10,
        b'M' | b'm' => 20,
        b'G' | b'g' => 30,
        _ => 0,
    };
    // Indexing would bring core's message about indices of texts into each image: 5 kB.
    let text = text.get(..text.len() - usize::from(shift != 0))?;
    let (digits, radix) = match text.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    u64::from_str_radix(digits, radix).ok()?.checked_mul(1 << shift)
}

impl CommandLine {
    /// Parses a command line. Parsing cannot fail: an unterminated quote extends to the end of the line.
    #[must_use]
    pub fn parse(line: &[u8]) -> Self {
        let mut parsed = Self::default();
        let mut is_argument = false;
        for (index, (word, quoted)) in (WordIter { rest: line }).enumerate() {
            if is_argument {
                parsed.args.push(word);
                continue;
            }
            if word == b"--" && !quoted {
                parsed.misplaced = None;
                is_argument = true;
                continue;
            }
            // The first word may be the kernel's file name.
            if index > 0 && parsed.misplaced.is_none() && looks_like_argument(&word) {
                parsed.misplaced = Some(word);
                continue;
            }
            if let Some(name) = word.strip_prefix(b"argv0=") {
                parsed.argv0 = Some(name.to_vec());
            } else if let Some(variable) = word.strip_prefix(b"env=") {
                parsed.env.push(variable.to_vec());
            } else if let Some(text) = word.strip_prefix(b"virtio_mmio.device=") {
                parsed.devices.extend(device(text));
            } else if word == b"console=hvc0" {
                parsed.virtio_console = true;
            } else if word == b"stdin=hvc0" {
                parsed.virtio_stdin = true;
            }
        }
        parsed
    }
}

/// Iterator over the words of a line, without their quotes. Each item also has a flag, which is true if any
/// part of the word was quoted.
struct WordIter<'a> {
    rest: &'a [u8],
}

impl Iterator for WordIter<'_> {
    type Item = (Vec<u8>, bool);

    fn next(&mut self) -> Option<Self::Item> {
        let mut word = Vec::new();
        let quoted = self.next_to(&mut word)?;
        Some((word, quoted))
    }
}

impl WordIter<'_> {
    /// Replaces `word` by the next word. Returns true if the word is quoted. Does not allocate memory if
    /// `word` has room for the whole line, since no word is longer than the line.
    fn next_to(&mut self, word: &mut Vec<u8>) -> Option<bool> {
        word.clear();
        self.rest = self.rest.trim_ascii_start();
        if self.rest.is_empty() {
            return None;
        }
        let (mut quoted, mut inside) = (false, false);
        while let Some((&byte, rest)) = self.rest.split_first() {
            match byte {
                b'"' => (quoted, inside) = (true, !inside),
                b'\\' => {
                    word.extend(rest.first());
                    self.rest = rest.get(1..).unwrap_or_default();
                    continue;
                }
                _ if byte.is_ascii_whitespace() && !inside => break,
                _ => word.push(byte),
            }
            self.rest = rest;
        }
        Some(quoted)
    }
}

#[cfg(test)]
mod tests {
    use super::{CommandLine, Encoder};
    use crate::boot_info::Region;
    use alloc::vec::Vec;
    use proptest::collection::vec;
    use proptest::prelude::any;
    use proptest::proptest;

    fn parse(line: &str) -> CommandLine {
        CommandLine::parse(line.as_bytes())
    }

    #[test]
    fn parse_unquotes_options_and_arguments() {
        let line = parse(r#"/boot/a loader env=A=b\ c argv0="my app" -- one "two words" "" --"#);
        assert_eq!(line.argv0.as_deref(), Some(&b"my app"[..]));
        assert_eq!(line.env, [b"A=b c"]);
        assert_eq!(line.args, [&b"one"[..], b"two words", b"", b"--"]);
    }

    #[test]
    fn virtio_mmio_devices_are_parsed() {
        let line = parse(
            "reboot=k virtio_mmio.device=512@0xfeb00e00:12 virtio_mmio.device=4K@0xd0000000:5:0 console=hvc0",
        );
        let found: Vec<_> = line.devices.iter().map(|device| (device.registers, device.line)).collect();
        let range = |start, size| Region { start, size };
        assert_eq!(found, [(range(0xfeb0_0e00, 512), 12), (range(0xd000_0000, 4096), 5)]);
        assert!(line.virtio_console && !line.virtio_stdin);
        for text in ["", "512", "512@", "512@x:1", "512@1", "@1:1", "17179869184G@0:0", "1@1:4294967296"] {
            assert_eq!(parse(&alloc::format!("virtio_mmio.device={text}")).devices, [], "{text}");
        }
    }

    #[test]
    fn stdin_of_virtio_console_is_an_option_and_no_argument() {
        let line = parse("stdin=hvc0 --");
        assert!(line.virtio_stdin && !line.virtio_console);
        assert!(!parse("-- stdin=hvc0").virtio_stdin);
    }

    #[test]
    fn line_without_separator_has_no_arguments() {
        for line in ["", "app.boot", "app.boot ip=dhcp ro", "/a/app.boot env=A=b"] {
            let parsed = parse(line);
            assert_eq!((parsed.args.len(), parsed.misplaced), (0, None), "{line}");
        }
    }

    #[test]
    fn argument_without_separator_is_misplaced() {
        for line in ["app.boot hello", "app.boot env=A=b hello two", "/x/app.boot ro hello"] {
            assert_eq!(parse(line).misplaced.as_deref(), Some(&b"hello"[..]), "{line}");
        }
        assert_eq!(parse("app.boot hello -- two").misplaced, None);
    }

    #[test]
    fn unterminated_quote_or_escape_ends_with_the_line() {
        assert_eq!(parse("-- \"a b").args, [b"a b"]);
        assert_eq!(parse("-- a\\").args, [b"a"]);
    }

    proptest! {
        #[test]
        fn parse_inverts_encode(
            name in vec(any::<u8>(), 0..20),
            env in vec(vec(any::<u8>(), 0..20), 0..4),
            args in vec(vec(any::<u8>(), 0..20), 0..4),
        ) {
            let mut encoder = Encoder::new();
            encoder.argv0(&name);
            env.iter().for_each(|variable| encoder.env(variable));
            args.iter().for_each(|argument| encoder.arg(argument));
            let expected = CommandLine { argv0: Some(name), env, args, ..CommandLine::default() };
            assert_eq!(CommandLine::parse(&encoder.finish()), expected);
        }

        #[test]
        fn parse_accepts_any_bytes(line in vec(any::<u8>(), 0..200)) {
            let _: CommandLine = CommandLine::parse(&line);
            let _: Vec<u8> = line;
        }
    }
}
