//! Rules for commands in Markdown files: the programs have the options of the commands, and the profiles,
//! packages and output folders in the commands exist.
//!
//! Commands are the lines of code blocks (`sh`: all lines; `console`: lines after `$`; `ini`: values of
//! `ExecStart=`), and code in the text of a paragraph if the code begins with the name of a program. Values
//! with a word in capitals, such as `HOST:GUEST`, are placeholders.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::rules::Violation;

/// Profiles that cargo defines, and the names of their output folders.
const CARGO_PROFILES: [&str; 6] = ["dev", "release", "test", "bench", "debug", "doc"];

/// Folders of the target directory that belong to no profile.
const OTHER_FOLDERS: [&str; 5] = ["setup", "hermit-sys", "patches", "soft-float", "std-tests"];

/// Beginning of an assignment to the variable with the runner's options.
const RUN_ARGS: &str = "HERMIT_RUN_ARGS=";

/// Names to which commands may refer.
#[derive(Debug)]
pub(crate) struct Definitions {
    profiles: BTreeSet<String>,
    packages: BTreeSet<String>,
    /// Programs, each with the words that start it, and its options.
    programs: Vec<(Vec<&'static str>, clap::Command)>,
}

impl Definitions {
    /// Collects the definitions of the workspace with these manifests, and of the build tool.
    pub(crate) fn new(manifests: &[(String, String)]) -> Result<Self> {
        let (mut profiles, mut packages) = (BTreeSet::new(), BTreeSet::new());
        for (file, text) in manifests {
            let manifest: toml::Table = text.parse().with_context(|| format!("cannot understand {file}"))?;
            let name = manifest.get("package").and_then(|package| package.get("name"));
            packages.extend(name.and_then(|name| name.as_str()).map(str::to_owned));
            if file == "Cargo.toml" {
                let defined = manifest.get("profile").and_then(|profiles| profiles.as_table());
                profiles.extend(defined.into_iter().flat_map(|profiles| profiles.keys().cloned()));
            }
        }
        let programs = vec![
            (vec!["cargo", "xtask"], crate::command_line()),
            (vec![RUN_ARGS], xtask::runner::variable().no_binary_name(false)),
        ];
        Ok(Self { profiles, packages, programs })
    }

    /// Adds a program that is started by its name.
    #[cfg(test)]
    fn add(&mut self, name: &'static str, command: clap::Command) {
        self.programs.push((vec![name], command));
    }

    /// Returns the errors of a command.
    fn errors(&self, text: &str) -> Vec<String> {
        simple_commands(text).iter().flat_map(|words| self.errors_of_simple(words)).collect()
    }

    fn errors_of_simple(&self, words: &[String]) -> Vec<String> {
        let mut found: Vec<String> = words.iter().filter_map(|word| self.error_of_path(word)).collect();
        let is_assignment = |word: &&String| word.split_once('=').is_some_and(|(name, _)| is_variable(name));
        let assignments = words.iter().take_while(|word| is_assignment(word) || *word == "sudo").count();
        let (assignments, words) = words.split_at(assignments);
        for options in assignments.iter().filter_map(|word| word.strip_prefix(RUN_ARGS)) {
            let options = [RUN_ARGS.to_owned()].into_iter().chain(shlex::split(options).unwrap_or_default());
            found.extend(self.error_of_program(&options.collect::<Vec<_>>()));
        }
        found.extend(self.error_of_program(words));
        if words.first().is_some_and(|word| word == "cargo") {
            found.extend(self.errors_of_cargo(words));
        }
        found
    }

    /// Parses the options of a simple command as the program does. Returns an error if the program rejects
    /// them.
    fn error_of_program(&self, words: &[String]) -> Option<String> {
        let (start, command) = self.programs.iter().find(|(start, _)| {
            words.len() >= start.len() && start.iter().zip(words).all(|(start, word)| is_program(word, start))
        })?;
        let arguments = words.get(start.len() - 1..)?;
        let error = command.clone().try_get_matches_from(arguments).err()?;
        let value = [ContextKind::InvalidValue, ContextKind::InvalidArg].into_iter().find_map(|kind| {
            if let Some(ContextValue::String(value)) = error.get(kind) { Some(value.as_str()) } else { None }
        });
        let value = value.unwrap_or_default();
        match error.kind() {
            ErrorKind::UnknownArgument if value.starts_with('-') || !has_placeholder(value) => {}
            ErrorKind::InvalidSubcommand | ErrorKind::ArgumentConflict | ErrorKind::TooManyValues => {}
            ErrorKind::InvalidValue | ErrorKind::ValueValidation if !has_placeholder(value) => {}
            // Text may name a command without its arguments.
            _ => return None,
        }
        let text = error.to_string();
        let reason = text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
        Some(format!("`{}`: {reason}", words.join(" ")))
    }

    /// Checks the profile and the package of a command of cargo.
    fn errors_of_cargo(&self, words: &[String]) -> Vec<String> {
        let mut found = Vec::new();
        let options = words.iter().take_while(|word| *word != "--");
        for (option, value) in options.zip(words.iter().skip(1)).filter(|(_, value)| !has_placeholder(value))
        {
            match option.as_str() {
                "--profile" if !self.has_profile(value) => {
                    found.push(format!("there is no profile `{value}`"));
                }
                "-p" | "--package" if words[1] != "xtask" && words[1] != "update" => {
                    let is_known = self.packages.contains(value);
                    found.extend((!is_known).then(|| format!("there is no package `{value}`")));
                }
                _ => {}
            }
        }
        found
    }

    fn has_profile(&self, name: &str) -> bool {
        self.profiles.contains(name) || CARGO_PROFILES.contains(&name)
    }

    /// Checks the folder of a path below the target directory.
    fn error_of_path(&self, word: &str) -> Option<String> {
        let mut parts = word.split('/').skip_while(|part| *part != "target").skip(1);
        let first = parts.next().filter(|part| !part.is_empty() && !has_placeholder(part))?;
        let folder = if first.matches('-').count() > 1 { parts.next()? } else { first };
        let is_known = self.has_profile(folder) || OTHER_FOLDERS.contains(&folder) || has_placeholder(folder);
        (!is_known).then(|| format!("`{word}`: no profile writes to `{folder}`"))
    }
}

/// Checks a Markdown file.
pub(super) fn check(file: &str, text: &str, definitions: &Definitions) -> Vec<Violation> {
    let commands = commands(text);
    let of_command = commands.iter().flat_map(|(line, command)| {
        definitions.errors(command).into_iter().map(|error| Violation::new(file, *line, error))
    });
    of_command.collect()
}

/// Returns the commands of a Markdown file, with the indices of their lines.
fn commands(text: &str) -> Vec<(usize, String)> {
    let (mut found, mut paragraph) = (Vec::new(), (0, String::new()));
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            found.extend(in_paragraph(&std::mem::take(&mut paragraph)));
            let block = lines.by_ref().take_while(|(_, line)| !line.trim_start().starts_with("```"));
            found.extend(in_block(language, &block.collect::<Vec<_>>()));
        } else if line.trim().is_empty() || line.starts_with('|') {
            found.extend(in_paragraph(&std::mem::take(&mut paragraph)));
            found.extend(in_paragraph(&(number, line.to_owned())));
        } else {
            if paragraph.1.is_empty() {
                paragraph.0 = number;
            }
            paragraph.1.extend([line.trim(), " "]);
        }
    }
    found.extend(in_paragraph(&paragraph));
    found
}

/// Returns the commands of a code block: its lines, where a line that ends with a backslash is joined with
/// the next one.
fn in_block(language: &str, lines: &[(usize, &str)]) -> Vec<(usize, String)> {
    let start = match language.trim() {
        "sh" => "",
        "console" => "$ ",
        "ini" => "ExecStart=",
        _ => return Vec::new(),
    };
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut is_continued = false;
    for (number, line) in lines {
        let continues = is_continued;
        is_continued = line.ends_with('\\');
        let part = line.trim().trim_end_matches('\\');
        if continues && let Some((_, command)) = found.last_mut() {
            command.extend([" ", part]);
        } else if let Some(command) = part.strip_prefix(start) {
            found.push((*number, command.to_owned()));
        } else {
            is_continued = false;
        }
    }
    found
}

/// Returns the code in the text of a paragraph that begins like a command or is a path of output.
fn in_paragraph((number, text): &(usize, String)) -> Vec<(usize, String)> {
    let code = text.split('`').skip(1).step_by(2);
    let is_command = |code: &&str| {
        ["cargo ", "uhyve ", "target/"].iter().any(|start| code.starts_with(start))
            || code.contains("/target/")
    };
    code.filter(is_command).map(|code| (*number, code.to_owned())).collect()
}

/// Splits a line of a shell into its simple commands. Removes redirections, comments and the brackets around
/// optional words.
fn simple_commands(text: &str) -> Vec<Vec<String>> {
    let Some(words) = shlex::split(text) else { return Vec::new() };
    let mut commands = vec![Vec::new()];
    for word in words {
        let is_operator = ["&", "&&", "|", "||", ";"].contains(&word.as_str());
        let is_redirection = word.contains('>');
        if is_operator {
            commands.push(Vec::new());
        } else if !is_redirection && let Some(command) = commands.last_mut() {
            let plain = word.strip_suffix(';').unwrap_or(&word);
            let plain = if plain.contains(':') { plain } else { plain.trim_matches(['[', ']']) };
            command.push(plain.to_owned());
            if plain.len() < word.len() && word.ends_with(';') {
                commands.push(Vec::new());
            }
        }
    }
    commands.retain(|command| !command.is_empty());
    commands
}

/// Returns true if a word starts the program `name`: the word is the name, or a path that ends with it.
fn is_program(word: &str, name: &str) -> bool {
    word.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
}

/// Returns true if the reader has to replace a word by a value: the word is empty, has a part in capitals or
/// an ellipsis, or lists alternatives.
fn has_placeholder(word: &str) -> bool {
    let mut parts = word.split(|letter: char| !letter.is_ascii_alphanumeric());
    let is_capital = |part: &str| {
        part.starts_with(|letter: char| letter.is_ascii_uppercase())
            && part.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
    };
    word.is_empty() || word.contains("...") || word.contains(['$', '|']) || parts.any(is_capital)
}

#[cfg(test)]
mod tests {
    use super::{Definitions, check, commands};
    use clap::CommandFactory;

    fn definitions() -> Definitions {
        let manifests = [
            ("Cargo.toml".to_owned(), "[profile.tools]\ninherits = 'release'\n".to_owned()),
            ("a/Cargo.toml".to_owned(), "[package]\nname = 'uhyve'\n".to_owned()),
        ];
        Definitions::new(&manifests).unwrap()
    }

    fn errors(text: &str) -> Vec<String> {
        check("a.md", text, &definitions()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn commands_are_those_of_blocks_and_paragraphs() {
        let text = "Run `cargo xtask\nrun a`, not `b`.\n\n```sh\nuhyve a \\\n    --b # c\n```\n```console\n$ d\ne\n```\n\
            ```ini\n[Service]\nExecStart=/bin/uhyve f\n```\n```rust\nfn g() {}\n```\n";
        let expected = [(0, "cargo xtask run a"), (4, "uhyve a  --b # c"), (8, "d"), (13, "/bin/uhyve f")];
        let expected: Vec<_> = expected.iter().map(|&(line, text)| (line, text.to_owned())).collect();
        assert_eq!(commands(text), expected);
    }

    #[test]
    fn options_profiles_packages_and_folders_that_do_not_exist_are_reported() {
        for (command, text) in [
            ("cargo build --profile hypervisor -p uhyve", "no profile `hypervisor`"),
            ("cargo build -p uhive", "no package `uhive`"),
            (
                "sudo install -m 755 target/hypervisor/uhyve /usr/local/bin/",
                "no profile writes to `hypervisor`",
            ),
            ("ls target/x86_64-unknown-linux-musl/hypervisor", "no profile writes to `hypervisor`"),
            ("cargo xtask run hello_world --port8080", "unexpected argument '--port8080'"),
            ("cargo xtask tests", "unrecognized subcommand 'tests'"),
            ("cargo xtask test --everything", "unexpected argument '--everything'"),
            ("cargo xtask run a --mount b:c", "HOST:/GUEST"),
            ("HERMIT_RUN_ARGS='-p 80' cargo run", "8080:80"),
            ("ls; cargo xtask run a -q -v", "cannot be used with"),
        ] {
            let found = errors(&format!("# A\n\n```sh\n{command}\n```\n"));
            assert!(found.len() == 1 && found[0].starts_with("a.md:4: "), "{command}: {found:?}");
            assert!(found[0].contains(text), "{found:?}");
        }
        assert_eq!(errors("The file `target/hypervisor/uhyve`.\n").len(), 1);
    }

    #[test]
    fn valid_commands_and_placeholders_are_not_reported() {
        for command in [
            "cargo build --profile tools -p uhyve && ls target/tools/uhyve",
            "cargo xtask run PATH --mount HOST:GUEST -p 8080:80 -- --any 2>&1 | cargo xtask addr2line FILE",
            "cargo xtask run EXAMPLE_OR_PATH [OPTIONS] [-- ARGS]",
            "cargo xtask test RING...",
            "cargo xtask run",
            "cargo xtask image --root",
            "cargo xtask run a --platform kvm|process",
            "HERMIT_RUN_ARGS=\"-p 7379:7379\" cargo run --target x86_64-unknown-hermit &",
            "ls target/x86_64-unknown-hermit/debug/NAME target/setup/crates",
        ] {
            assert_eq!(errors(&format!("```sh\n{command}\n```\n")), [""; 0], "{command}");
        }
    }

    /// Only tests know uhyve's command line, because the lint itself does not depend on the hypervisor.
    #[test]
    fn options_of_uhyve_in_documents_exist() {
        let documents = super::super::text_files("*.md").unwrap();
        let mut definitions = Definitions::new(&super::super::text_files("*Cargo.toml").unwrap()).unwrap();
        definitions.add("uhyve", uhyve::command::cli::Arguments::command());
        let wrong = check("a.md", "`uhyve --board pc`\n", &definitions);
        assert!(wrong.len() == 1 && wrong[0].to_string().contains("--board"), "{wrong:?}");
        let found: Vec<String> = documents
            .iter()
            .flat_map(|(file, text)| check(file, text, &definitions))
            .map(|violation| violation.to_string())
            .collect();
        assert_eq!(found, [""; 0]);
    }
}
