//! Tests the commands in the README: they must print the output that the README shows.

use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use hermit_toolchain::{process, workspace};

use super::build_tool::{expect, xtask_program};
use super::schedule::Tests;

/// Beginning of the commands that are tested. These commands end by themselves, and their output is the same
/// on each host, except for numbers.
const START: &str = "cargo xtask run hello_world";

/// Adds the tests.
pub(super) fn test(tests: &mut Tests<'_>) {
    tests.add("documents: commands of the README print what it shows", readme);
}

fn readme() -> Result<()> {
    let text = fs::read_to_string(workspace::root().join("README.md")).context("cannot read the README")?;
    let commands = shown(&text);
    ensure!(commands.len() >= 2, "the README shows {} commands that begin with `{START}`", commands.len());
    let program = process::display(&Command::new(xtask_program()?));
    for (command, output) in commands {
        let mut shell = Command::new("sh");
        shell.args(["-c", &command.replace("cargo xtask", &program)]).current_dir(workspace::root());
        let printed = expect(shell.env_remove("GREETING").stdin(Stdio::null()), 0, "")?.stdout;
        let printed = without_numbers(&String::from_utf8_lossy(&printed));
        let output = without_numbers(&output);
        ensure!(printed == output, "`{command}` prints\n{printed}instead of\n{output}");
    }
    Ok(())
}

/// Returns the commands that begin with [`START`] in the first `console` block, each with its output.
fn shown(text: &str) -> Vec<(String, String)> {
    let block = text.lines().skip_while(|line| *line != "```console").skip(1);
    let mut commands: Vec<(String, String)> = Vec::new();
    for line in block.take_while(|line| *line != "```") {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(command), _) => commands.push((command.to_owned(), String::new())),
            (None, Some((_, output))) => output.extend([line, "\n"]),
            (None, None) => {}
        }
    }
    commands.retain(|(command, _)| command.starts_with(START));
    commands
}

/// Returns the text with a placeholder for each word that begins with a digit but is not an integer.
fn without_numbers(text: &str) -> String {
    let plain = |word: &str| {
        let is_measured =
            word.starts_with(|first: char| first.is_ascii_digit()) && word.parse::<u32>().is_err();
        if is_measured { "NUMBER".to_owned() } else { word.to_owned() }
    };
    let lines = text.lines().map(|line| line.split(' ').map(plain).collect::<Vec<_>>().join(" ") + "\n");
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::{shown, without_numbers};

    #[test]
    fn commands_are_shown_with_their_output() {
        let text =
            "```sh\n$ no\n```\n```console\n$ cargo xtask run hello_world -- a\none\ntwo\n$ other\nx\n```\n";
        assert_eq!(shown(text), [("cargo xtask run hello_world -- a".to_owned(), "one\ntwo\n".to_owned())]);
    }

    #[test]
    fn measured_numbers_are_replaced() {
        let text = "processors: 1\ntime: 2026-11-22T13:10:24Z\nfor: 23.215µs\n";
        assert_eq!(without_numbers(text), "processors: 1\ntime: NUMBER\nfor: NUMBER\n");
    }
}
