//! Tests many starts of a program, one after the other. Each start has other options: number of CPUs, memory,
//! arguments, variables, input, disk, initramfs, network and exit code.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::test::platform::TestPlatform;
use crate::test::random::Random;
use crate::test::schedule::Tests;

/// Number of starts at native speed. It is large enough to exhaust a resource that each start leaks. The
/// number with `--long` is also large enough to find rare races.
const STARTS: u32 = 200;
const LONG_STARTS: u32 = 10_000;

/// Number of starts in QEMU, with `--long` only.
const EMULATED_STARTS: u32 = 1_000;

/// Sizes of memory in MiB.
const MEMORY: [u64; 8] = [8, 9, 16, 24, 64, 100, 256, 512];

/// Arguments that a shell, a kernel's command line or an option parser could change by mistake.
const WORDS: [&str; 8] = ["a", "two words", "ü€", "-x=1,2", "--", "\"q\"", "\\", "$HOME"];

/// Average number of guests per guest with a network.
const NETWORK_INTERVAL: usize = 16;

/// Maximum size of the input in bytes, more than a pipe holds. The program does not read the input.
const MAX_INPUT: usize = 100_000;

/// Size of the disk in bytes.
const DISK: usize = 1 << 20;

pub(super) fn test<'a>(tests: &mut Tests<'a>, platform: &'a TestPlatform<'_>, long: bool) {
    let starts = match (platform.is_native(), long) {
        (true, false) => STARTS,
        (true, true) => LONG_STARTS,
        (false, true) if !platform.is_uhyve() => EMULATED_STARTS,
        (false, _) => return,
    };
    tests.add(format!("{platform}: {starts} starts of hello_world"), move || {
        let files = Files::new().context("cannot make a disk and an initramfs")?;
        (0..starts).try_for_each(|number| {
            let guest = RandomGuest::new(number);
            guest.run(platform, &files).with_context(|| format!("start {number}: {guest:?}"))
        })
    });
}

/// Files that a guest may use: a disk, and a folder with the initramfs.
#[derive(Debug)]
struct Files {
    _folder: TempDir,
    disk: PathBuf,
    initramfs: PathBuf,
}

impl Files {
    fn new() -> Result<Self> {
        let folder = TempDir::new()?;
        let (disk, initramfs) = (folder.path().join("disk"), folder.path().join("initramfs"));
        fs::write(&disk, vec![1; DISK])?;
        fs::create_dir(&initramfs)?;
        fs::write(initramfs.join("file"), "text")?;
        Ok(Self { _folder: folder, disk, initramfs })
    }
}

/// A guest with random options. They are derived from the number of the start, so that a failure can be
/// repeated.
#[derive(Debug)]
struct RandomGuest {
    cpus: u32,
    memory: u64,
    arguments: Vec<String>,
    code: u8,
    greeting: Option<&'static str>,
    input_size: usize,
    has_disk: bool,
    has_initramfs: bool,
    is_connected: bool,
}

impl RandomGuest {
    fn new(number: u32) -> Self {
        let mut random = Random::new(u64::from(number) + 1);
        let code = [0, random.next().to_le_bytes()[0]][random.below(2)];
        let words = (0..random.below(6)).map(|_| WORDS[random.below(WORDS.len())].to_owned());
        let mut arguments: Vec<_> = words.collect();
        arguments.extend(["--exit-code".to_owned(), code.to_string()]);
        let cpus = [1, 2, 3, 4][random.below(4)];
        Self {
            cpus,
            memory: MEMORY[random.below(MEMORY.len())],
            arguments,
            code,
            greeting: [None, Some(WORDS[random.below(WORDS.len())])][random.below(2)],
            input_size: [0, random.below(MAX_INPUT)][random.below(2)],
            has_disk: random.below(4) == 0,
            has_initramfs: random.below(4) == 0,
            is_connected: random.below(NETWORK_INTERVAL) == 0,
        }
    }

    /// Runs the guest, and checks its exit code and its whole output except the times.
    fn run(&self, platform: &TestPlatform<'_>, files: &Files) -> Result<()> {
        let arguments: Vec<_> = self.arguments.iter().map(String::as_str).collect();
        let guest = platform.guest("hello_world", &arguments).cpus(self.cpus).memory(self.memory);
        let guest = guest.reads(&vec![b'x'; self.input_size]);
        let guest = match self.greeting {
            Some(greeting) => guest.variable(&format!("GREETING={greeting}")),
            None => guest,
        };
        let guest = if self.has_disk { guest.disk(&files.disk) } else { guest };
        let guest = if self.has_initramfs { guest.initramfs(&files.initramfs) } else { guest };
        let guest = if self.is_connected { guest.connected() } else { guest };
        let outcome = guest.expect(self.code.into(), &["\ntime: ", "\nrunning for: "])?;
        let mut expected = "Hello, world!\noperating system: hermit\n".to_owned();
        for (number, argument) in (1..).zip(&self.arguments) {
            expected.push_str(&format!("argument {number}: {argument}\n"));
        }
        let greeting = self.greeting.map(|greeting| format!("GREETING={greeting}"));
        let greeting = greeting.unwrap_or_else(|| "GREETING is not set".to_owned());
        expected.push_str(&format!("{greeting}\nprocessors: {}\n", self.cpus));
        ensure!(outcome.output.starts_with(expected.as_bytes()), "{outcome}\nis not\n{expected}");
        ensure!(outcome.errors.is_empty(), "there is something on standard error\n{outcome}");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{MEMORY, RandomGuest, STARTS};
    use std::collections::BTreeSet;

    #[test]
    fn starts_use_all_options() {
        let guests: Vec<_> = (0..STARTS).map(RandomGuest::new).collect();
        assert_eq!(guests.iter().map(|guest| guest.cpus).collect::<BTreeSet<_>>(), (1..=4).collect());
        assert_eq!(guests.iter().map(|guest| guest.memory).collect::<BTreeSet<_>>(), MEMORY.into());
        assert!(guests.iter().any(|guest| guest.arguments.len() == 2 && guest.code == 0));
        assert!(guests.iter().any(|guest| guest.arguments.len() > 5 && guest.code > 1));
        assert!(guests.iter().any(|guest| guest.has_disk && guest.has_initramfs && guest.greeting.is_some()));
        assert!(
            guests.iter().any(|guest| guest.is_connected) && guests.iter().any(|guest| guest.input_size > 0)
        );
    }
}
