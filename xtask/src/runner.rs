//! `xtask runner`: the runner that cargo calls for `cargo run` and `cargo test` on the target.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Parser;
use rustix::process::{Signal, set_parent_process_death_signal};

use crate::libtest::{self, RUN_ARGS, VmNeeds};
use crate::run::VmOptions;

/// Arguments that cargo passes.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Boot a single machine, even if the image is a test executable. It ends with this process's parent
    #[arg(long)]
    single: bool,
    /// uhyve's executable, which is current
    #[arg(long, value_name = "FILE")]
    uhyve: Option<PathBuf>,
    /// The image
    image: PathBuf,
    /// Arguments of the program
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

#[derive(Debug, Parser)]
#[command(name = RUN_ARGS, no_binary_name = true)]
struct Options {
    #[command(flatten)]
    vm: VmOptions,
}

/// Runs the image and returns the exit code of the guest.
pub fn main(arguments: &Arguments) -> Result<u8> {
    let options = env::var(RUN_ARGS).unwrap_or_default();
    let words = shlex::split(&options).with_context(|| format!("{RUN_ARGS} has an unclosed quote"))?;
    let mut vm = Options::try_parse_from(words).with_context(|| format!("{RUN_ARGS}={options}"))?.vm;
    vm.check()?;
    vm.set_uhyve(arguments.uhyve.clone());
    if is_test(&arguments.image) {
        vm.start_in(&env::current_dir().context("there is no current directory")?);
    }
    if arguments.single {
        // SIGTERM ends uhyve, which this process becomes, in an orderly way. Without the signal the machine only runs on.
        let _: rustix::io::Result<()> = set_parent_process_death_signal(Some(Signal::TERM));
    } else {
        let options = VmNeeds { cpus: vm.cpus(), is_exclusive: vm.is_exclusive() };
        if let Some(code) = libtest::run(&arguments.image, &arguments.arguments, &options, vm.uhyve())? {
            return Ok(code);
        }
    }
    vm.boot(vm.choose_vmm()?, arguments.image.clone(), &arguments.arguments)
}

/// Whether cargo or rustdoc has built an executable for tests or benchmarks: that is in a folder of intermediate files.
fn is_test(image: &Path) -> bool {
    let folder = image.parent().and_then(Path::file_name).and_then(|name| name.to_str());
    folder.is_some_and(|folder| folder == "deps" || folder.starts_with("rustdoctest"))
}

#[cfg(test)]
mod tests {
    use super::is_test;

    #[test]
    fn executables_of_tests_are_in_folders_of_intermediate_files() {
        for image in ["target/debug/deps/unit-1", "/tmp/rustdoctestAbC/rust_out"] {
            assert!(is_test(image.as_ref()), "{image}");
        }
        for image in ["target/debug/program", "target/debug/examples/program", "program", "deps"] {
            assert!(!is_test(image.as_ref()), "{image}");
        }
    }
}
