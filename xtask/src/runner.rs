//! `xtask runner`: the runner that cargo calls for `cargo run` and `cargo test` on the target.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{CommandFactory, Parser};
use hermit_machines::uhyve::Trust;
use hermit_toolchain::usage::usage_error;
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
#[command(name = RUN_ARGS, no_binary_name = true, disable_help_flag = true)]
struct Options {
    #[command(flatten)]
    vm: VmOptions,
}

/// Returns the parser of the options in the variable `HERMIT_RUN_ARGS`.
pub fn variable() -> clap::Command {
    Options::command()
}

/// Runs the image and returns the exit code of the guest.
pub fn main(arguments: &Arguments) -> Result<u8> {
    let options = env::var_os(RUN_ARGS).unwrap_or_default().into_string();
    let options = options.map_err(|_| usage_error(format!("{RUN_ARGS} is not UTF-8")))?;
    let mut vm = machine_options(&options)?;
    vm.set_uhyve(arguments.uhyve.clone());
    if is_test(&arguments.image) {
        vm.start_in(&env::current_dir().context("there is no current directory")?);
    }
    if arguments.single {
        // This process becomes uhyve, which SIGTERM ends in an orderly way. If the call fails, the machine
        // only runs on after the parent has ended.
        let _: rustix::io::Result<()> = set_parent_process_death_signal(Some(Signal::TERM));
    } else {
        vm.check_host()?;
        if let Some(vmm) = vm.known_vmm() {
            vm.ensure_packages(vmm)?;
        }
        note_misspelt(env::vars_os().filter_map(|(name, _)| name.into_string().ok()));
        let options = VmNeeds { cpus: vm.cpus(), is_exclusive: vm.is_exclusive() };
        if let Some(code) = libtest::run(&arguments.image, &arguments.arguments, &options, vm.uhyve())? {
            return Ok(code);
        }
    }
    let is_boot_image = vm.is_boot_image(&arguments.image)?;
    let vmm = vm.choose_vmm(Trust::Own)?;
    vm.ensure_packages(vmm.kind())?;
    vm.boot(vmm, arguments.image.clone(), is_boot_image, &arguments.arguments)
}

/// Parses the options in the variable.
///
/// # Errors
///
/// Fails with clap's message about the invalid option.
fn machine_options(options: &str) -> Result<VmOptions> {
    let invalid = |reason: &str| usage_error(format!("{RUN_ARGS}=`{options}`: {reason}"));
    let words = shlex::split(options).ok_or_else(|| invalid("there is an unclosed quote"))?;
    let parsed = Options::try_parse_from(words).map_err(|error| {
        let message = error.to_string();
        invalid(message.strip_prefix("error: ").unwrap_or(&message).trim_end())
    })?;
    parsed.vm.check()?;
    Ok(parsed.vm)
}

/// Prints a note about variables whose names look like misspelt [`RUN_ARGS`]. Without the note, the program
/// may run, but without the options, such as its ports.
fn note_misspelt(variables: impl Iterator<Item = String>) {
    for name in variables.filter(|name| is_misspelt(name)) {
        eprintln!("note: the variable {name} is not used: did you mean {RUN_ARGS}?");
    }
}

fn is_misspelt(name: &str) -> bool {
    name != RUN_ARGS && ["HERMIT_RUN", "HERMIT_ARG"].iter().any(|start| name.starts_with(start))
}

/// Returns true if the executable contains tests or benchmarks. Cargo and rustdoc put such executables into a
/// directory of intermediate files.
fn is_test(image: &Path) -> bool {
    let folder = image.parent().and_then(Path::file_name).and_then(|name| name.to_str());
    folder.is_some_and(|folder| folder == "deps" || folder.starts_with("rustdoctest"))
}

#[cfg(test)]
mod tests {
    use super::{is_misspelt, is_test, machine_options};
    use hermit_toolchain::usage::UsageError;

    #[test]
    fn wrong_options_of_the_variable_are_errors_of_the_command_line() {
        for (options, text) in [
            ("--publsh 8080:80", "unexpected argument '--publsh' found"),
            ("-p 80", "8080:80"),
            ("--env 'A=b", "unclosed quote"),
        ] {
            let error = machine_options(options).unwrap_err();
            assert!(error.is::<UsageError>(), "{error}");
            let message = error.to_string();
            assert!(message.starts_with(&format!("HERMIT_RUN_ARGS=`{options}`: ")), "{message}");
            assert!(message.contains(text) && !message.contains("error:"), "{message}");
            assert!(!message.contains("--help"), "{message}");
        }
        assert!(machine_options("--platform process --gdb 0 --board pc").unwrap_err().is::<UsageError>());
        assert_eq!(machine_options("--cpus 2").unwrap().cpus(), 2);
    }

    #[test]
    fn variables_that_are_nearly_the_right_one_are_misspelt() {
        for name in ["HERMIT_RUN_ARG", "HERMIT_RUNARGS", "HERMIT_ARGS"] {
            assert!(is_misspelt(name), "{name}");
        }
        for name in ["HERMIT_RUN_ARGS", "HERMIT_OBJECT_CACHE", "HERMIT", "RUN_ARGS"] {
            assert!(!is_misspelt(name), "{name}");
        }
    }

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
