//! Tests of the guides in `docs/guides`: a guide lists the files that a change takes, as the example shows.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use clap::FromArgMatches;
use hermit_toolchain::{crates, process, workspace};

use crate::{command_line, patches};

/// Directories whose sources are part of a change: the system's own, and programs that test it.
const SOURCES: [&str; 5] = ["hermit-abi", "hermit-sys", "kernel", "loader", "examples"];

/// Text of a tracked file.
fn read(path: &str) -> String {
    fs::read_to_string(workspace::root().join(path)).unwrap()
}

/// Tracked files below [`SOURCES`] that contain one of the texts, but not those below `except`.
fn files_with(texts: &[&str], except: &[&str]) -> BTreeSet<String> {
    let mut git = Command::new("git");
    git.args(["ls-files", "--"]).args(SOURCES).current_dir(workspace::root());
    let files = process::output(&mut git).unwrap();
    let files = files.lines().filter(|file| !except.iter().any(|directory| file.starts_with(directory)));
    let contains = |file: &&str| {
        let text = fs::read_to_string(workspace::root().join(file)).unwrap_or_default();
        texts.iter().any(|pattern| text.contains(pattern))
    };
    files.filter(contains).map(str::to_owned).collect()
}

/// Tracked files that contain each of the expressions, except records and those at the paths `except`.
fn tracked(expressions: &[&str], except: &[&str]) -> Vec<String> {
    let mut git = Command::new("git");
    git.args(["grep", "--files-with-matches", "--all-match", "--extended-regexp"]);
    git.args(expressions.iter().flat_map(|expression| ["-e", expression])).current_dir(workspace::root());
    let files = process::output(&mut git).unwrap();
    let files = files.lines().filter(|file| !except.iter().any(|directory| file.starts_with(directory)));
    files.map(str::to_owned).collect()
}

/// Asserts that a guide lists files, by their paths or those of their directories.
fn assert_lists(guide: &str, files: &[String]) {
    let text = read(guide);
    let quotes: Vec<_> = text.split('`').skip(1).step_by(2).collect();
    let is_listed = |file: &&String| {
        quotes.iter().any(|quote| quote == file || (quote.ends_with('/') && file.starts_with(quote)))
    };
    let missing: Vec<_> = files.iter().filter(|file| !is_listed(file)).collect();
    assert!(!files.is_empty() && missing.is_empty(), "{guide} does not list {missing:?}");
}

/// Paths of files in the code quotes of a guide.
fn listed(guide: &str) -> BTreeSet<String> {
    let quotes = guide.split('`').skip(1).step_by(2);
    quotes.filter(|quote| Path::new(quote).extension().is_some()).map(str::to_owned).collect()
}

#[test]
fn guide_to_socket_options_lists_the_files_of_its_example() {
    let found = files_with(
        &["TCP_USER_TIMEOUT", "UserTimeout", "user_timeout"],
        &["hermit-sys/net/tcp", "hermit-sys/net/fuzz"],
    );
    let listed = listed(&read("docs/guides/socket-option.md"));
    let missing: Vec<_> = found.difference(&listed).collect();
    assert!(!found.is_empty() && missing.is_empty(), "the guide does not list {missing:?}");
}

/// Documents that name versions of the past.
const RECORDS: [&str; 4] =
    ["CHANGELOG.md", "docs/figures", "docs/measurements.md", "docs/guides/toolchain-bump.md"];

#[test]
fn guide_to_crates_lists_the_files_that_name_its_example() {
    let lock = read("Cargo.lock");
    let (_, version) = crates::locked(&lock).find(|(name, _)| *name == "socket2").unwrap();
    let files = tracked(&["socket2", &version.replace('.', "\\.")], &RECORDS);
    assert_lists("docs/guides/crate-bump.md", &files);
}

#[test]
fn guide_to_crates_is_replayed() {
    let (guide, lock) = (read("docs/guides/crate-bump.md"), read("Cargo.lock"));
    let (_, version) = crates::locked(&lock).find(|(name, _)| *name == "socket2").unwrap();
    let command =
        guide.lines().find_map(|line| line.trim().strip_prefix("cargo xtask patches refresh ")).unwrap();
    let words = command.replace("VERSION", version);
    let words = ["xtask", "patches", "refresh"].into_iter().chain(words.split(' '));
    let matches = command_line().try_get_matches_from(words).unwrap();
    let (_, matches) = matches.subcommand().unwrap();
    patches::main(&patches::Arguments::from_arg_matches(matches).unwrap()).unwrap();
}

#[test]
fn guide_to_toolchains_lists_the_files_that_name_the_version() {
    let toolchain = read("rust-toolchain.toml");
    let version = toolchain.split('"').find(|text| text.starts_with("1.")).unwrap();
    let minor = version.strip_suffix(".0").unwrap_or(version).replace('.', "\\.");
    let files = tracked(&[&format!(r"(^|[^0-9.]){minor}(\.0)?([^0-9.]|\.?$)")], &RECORDS);
    assert_lists("docs/guides/toolchain-bump.md", &files);
}
