//! Child processes: finding programs and running them.

use std::env;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::quote::shell_word;

/// Program of util-linux that starts another program, which the kernel kills when this process ends.
const SETPRIV: &str = "setpriv";

/// Returns a command that runs cargo: the cargo that started this process, or else the one in `PATH`.
pub fn cargo() -> Command {
    Command::new(env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")))
}

/// Finds a program in `PATH`.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Runs a command to its end. Its output goes to standard error, because standard output is for results.
pub fn run(command: &mut Command) -> Result<()> {
    command.stdin(Stdio::null()).stdout(io::stderr());
    let status = command.status().with_context(|| cannot_start(command))?;
    if !status.success() {
        bail!("`{}` failed ({status})", display(command));
    }
    Ok(())
}

/// Runs a command to its end. The command's output is shown only as a part of the error, because this process
/// prints messages of its own about the progress.
pub(crate) fn run_captured(command: &mut Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output().with_context(|| cannot_start(command))?;
    if !output.status.success() {
        let text = [output.stdout, output.stderr].concat();
        bail!(
            "`{}` failed ({})\n{}",
            display(command),
            output.status,
            String::from_utf8_lossy(&text).trim_end()
        );
    }
    Ok(())
}

/// Runs a command to its end and returns its standard output. Its standard error is that of this process.
pub fn output(command: &mut Command) -> Result<String> {
    command.stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output().with_context(|| cannot_start(command))?;
    if !output.status.success() {
        bail!("`{}` failed ({})", display(command), output.status);
    }
    String::from_utf8(output.stdout)
        .with_context(|| format!("`{}` printed bytes that are not UTF-8", display(command)))
}

/// Returns the command, changed so that its process is killed when this process ends in any way. Ctrl-C in
/// the terminal does not reach the process, because this process handles Ctrl-C.
pub fn dies_with_parent(command: Command) -> Command {
    let mut command = match find(SETPRIV) {
        Some(setpriv) => {
            let mut wrapped = Command::new(setpriv);
            wrapped.args(["--pdeathsig", "KILL", "--"]).arg(command.get_program()).args(command.get_args());
            wrapped
        }
        None => command,
    };
    command.process_group(0);
    command
}

/// Formats the command as in a shell, with quotes.
pub fn display(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(shell_word).collect::<Vec<_>>().join(" ")
}

fn cannot_start(command: &Command) -> String {
    let program = command.get_program().to_string_lossy();
    format!("cannot start `{program}`: is it installed and in PATH?")
}

#[cfg(test)]
mod tests {
    use super::{display, find, output, run, run_captured};
    use std::process::Command;

    #[test]
    fn display_quotes_words_with_blanks() {
        assert_eq!(display(Command::new("a").args(["b c", "d"])), "a 'b c' d");
    }

    #[test]
    fn output_is_captured_and_failures_are_reported() {
        assert_eq!(output(Command::new("echo").arg("hi")).unwrap(), "hi\n");
        let message = run(&mut Command::new("false")).unwrap_err().to_string();
        assert!(message.contains("`false` failed"), "{message}");
        let failed = run_captured(Command::new("sh").args(["-c", "echo one; echo two >&2; exit 3"]));
        let message = failed.unwrap_err().to_string();
        assert!(message.ends_with("3)\none\ntwo"), "{message}");
        let message = run(&mut Command::new("no-such-program")).unwrap_err().to_string();
        assert!(message.contains("is it installed"), "{message}");
    }

    #[test]
    fn programs_are_found_in_the_path() {
        assert!(find("sh").is_some());
        assert!(find("no-such-program").is_none());
    }
}
