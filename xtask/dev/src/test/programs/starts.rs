//! Many starts of a program, one after the other, each with other numbers of CPUs, sizes of memory, arguments and exit codes.

use anyhow::{Context, Result, ensure};

use crate::test::platform::TestPlatform;
use crate::test::random::Random;
use crate::test::schedule::Tests;

/// Number of starts at native speed: enough to run out of what each of them leaks, and with `--long` of rare races.
const STARTS: u32 = 200;
const LONG_STARTS: u32 = 10_000;

/// Number of starts in QEMU, with `--long` only.
const EMULATED_STARTS: u32 = 1_000;

/// Sizes of memory in MiB.
const MEMORY: [u64; 8] = [8, 9, 16, 24, 64, 100, 256, 512];

/// Arguments that a shell, a command line of a kernel or a parser of options could change.
const WORDS: [&str; 8] = ["a", "two words", "ü€", "-x=1,2", "--", "\"q\"", "\\", "$HOME"];

pub(super) fn test<'a>(tests: &mut Tests<'a>, platform: &'a TestPlatform<'_>, long: bool) {
    let starts = match (platform.is_native(), long) {
        (true, false) => STARTS,
        (true, true) => LONG_STARTS,
        (false, true) if !platform.is_uhyve() => EMULATED_STARTS,
        (false, _) => return,
    };
    tests.add(format!("{platform}: {starts} starts of hello_world"), move || {
        (0..starts).try_for_each(|number| {
            let guest = RandomGuest::new(number);
            guest.run(platform).with_context(|| format!("start {number}: {guest:?}"))
        })
    });
}

/// A guest that is derived from the number of the start, so that a failure can be repeated.
#[derive(Debug)]
struct RandomGuest {
    cpus: u32,
    memory: u64,
    arguments: Vec<String>,
    code: u8,
}

impl RandomGuest {
    fn new(number: u32) -> Self {
        let mut random = Random::new(u64::from(number) + 1);
        let code = [0, random.next().to_le_bytes()[0]][random.below(2)];
        let words = (0..random.below(6)).map(|_| WORDS[random.below(WORDS.len())].to_owned());
        let mut arguments: Vec<_> = words.collect();
        arguments.extend(["--exit-code".to_owned(), code.to_string()]);
        let cpus = [1, 2, 3, 4][random.below(4)];
        Self { cpus, memory: MEMORY[random.below(MEMORY.len())], arguments, code }
    }

    /// Runs the guest, and checks its exit code and its whole output but for the times.
    fn run(&self, platform: &TestPlatform<'_>) -> Result<()> {
        let arguments: Vec<_> = self.arguments.iter().map(String::as_str).collect();
        let guest = platform.guest("hello_world", &arguments).cpus(self.cpus).memory(self.memory);
        let outcome = guest.expect(self.code.into(), &["\ntime: ", "\nrunning for: "])?;
        let mut expected = "Hello, world!\noperating system: hermit\n".to_owned();
        for (number, argument) in (1..).zip(&self.arguments) {
            expected.push_str(&format!("argument {number}: {argument}\n"));
        }
        expected.push_str(&format!("GREETING is not set\nprocessors: {}\n", self.cpus));
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
    fn starts_use_all_numbers_of_cpus_and_sizes_of_memory() {
        let guests: Vec<_> = (0..STARTS).map(RandomGuest::new).collect();
        assert_eq!(guests.iter().map(|guest| guest.cpus).collect::<BTreeSet<_>>(), (1..=4).collect());
        assert_eq!(guests.iter().map(|guest| guest.memory).collect::<BTreeSet<_>>(), MEMORY.into());
        assert!(guests.iter().any(|guest| guest.arguments.len() == 2 && guest.code == 0));
        assert!(guests.iter().any(|guest| guest.arguments.len() > 5 && guest.code > 1));
    }
}
