//! The project's own rules for Rust files. Clippy does not check them.

use std::fmt;
use std::path::Path;

use hermit_toolchain::workspace::PROGRAMS;

/// Maximum number of lines of a file, without comments and tests.
const MAX_LINES: usize = 400;

/// Maximum length of a comment line in characters. rustfmt has the same limit for code, but does not wrap
/// comments.
const MAX_COMMENT: usize = 110;

/// The only folder with code of a processor architecture.
const ARCH: &str = "kernel/hal/src/arch/";

/// Crates with unsafe code. All other crates forbid it, except programs for guests.
const UNSAFE_CRATES: [&str; 8] = [
    "hermit-abi/",
    "hermit-sys/",
    "hermit-sys/net/",
    "hypervisor/",
    "kernel/",
    "kernel/hal/",
    "kernel/models/",
    "loader/",
];

/// The crate that declares unsafe traits but has no other unsafe code.
const DECLARING_CRATE: &str = "kernel/virtio/";

/// A violation of a rule.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    file: String,
    line: usize,
    message: String,
}

impl Violation {
    /// Returns a violation in the line with this index. Indices start at 0.
    pub(super) fn new(file: &str, index: usize, message: String) -> Self {
        Self { file: file.to_owned(), line: index + 1, message }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}: {}", self.file, self.line, self.message)
    }
}

/// Returns the violations of the rules in a file.
pub(crate) fn check(file: &str, text: &str) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut report = |line: usize, message: &str| {
        found.push(Violation::new(file, line, message.to_owned()));
    };
    if !text.starts_with("//!") {
        report(0, "a file opens with `//!` and says what it is for");
    }
    if let Some(level) = required_level(file)
        && !text.contains(&format!("#![{level}(unsafe_code)]"))
    {
        report(0, &format!("this crate must say #![{level}(unsafe_code)]"));
    }
    let is_declaring = file.starts_with(DECLARING_CRATE) && !file.contains("/testing/");
    let has_unsafe_code = |line: &str| line.contains("unsafe ") && !line.starts_with("pub unsafe trait ");
    if is_declaring && let Some((number, _)) = code_lines(text).find(|(_, line)| has_unsafe_code(line)) {
        report(number, "this crate declares unsafe traits, and has no other unsafe code");
    }
    let code: Vec<(usize, &str)> = code_lines(text).collect();
    if code.len() > MAX_LINES {
        report(0, &format!("{} lines of code are more than {MAX_LINES}: split the file", code.len()));
    }
    for (number, line) in code {
        let line = line.trim();
        // This file contains the texts that it searches for.
        if file.ends_with("lint/rules.rs") {
            break;
        }
        if line.contains("static mut ") {
            report(number, "no `static mut`");
        }
        if line.contains("target_arch") && !file.starts_with(ARCH) {
            report(number, "`target_arch` belongs into hal's arch folder");
        }
    }
    for number in long_comments(text) {
        report(number, &format!("a line of a comment has at most {MAX_COMMENT} characters"));
    }
    for (number, _) in text.lines().enumerate().filter(|(_, line)| refers_elsewhere(line)) {
        report(number, "a SAFETY comment argues: which invariant, who keeps it, why it holds here");
    }
    for (number, line) in text.lines().enumerate().filter(|(_, line)| is_commented_code(line)) {
        let _: &str = line;
        report(number, "no commented-out code: git remembers");
    }
    found
}

/// Returns the level of the lint `unsafe_code` that the root of a crate must have. Returns `None` for other
/// files, and for crates that may have unsafe code.
fn required_level(file: &str) -> Option<&'static str> {
    let krate = ["src/lib.rs", "src/main.rs"].iter().find_map(|root| file.strip_suffix(root))?;
    let is_program = PROGRAMS.iter().any(|programs| Path::new(krate).starts_with(programs));
    match krate {
        DECLARING_CRATE => Some("deny"),
        _ if is_program || UNSAFE_CRATES.contains(&krate) => None,
        _ => Some("forbid"),
    }
}

/// Returns the indices of comment lines that are too long. Table rows, code and web addresses may be longer,
/// because they cannot be wrapped.
fn long_comments(text: &str) -> Vec<usize> {
    let (mut found, mut is_code) = (Vec::new(), false);
    for (number, line) in text.lines().enumerate() {
        let Some(comment) = line.trim_start().strip_prefix("//") else { continue };
        let comment = comment.trim_start_matches(['/', '!']);
        is_code ^= comment.starts_with(" ```");
        let is_wrappable = !is_code && !comment.starts_with(" |") && !comment.contains("://");
        if is_wrappable && line.chars().count() > MAX_COMMENT {
            found.push(number);
        }
    }
    found
}

/// Returns the lines of code: neither blank, nor comments, nor in the test module at the end.
fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let before_tests = |line: &&str| *line != "#[cfg(test)]";
    let lines = text.lines().take_while(before_tests).enumerate();
    lines.filter(|(_, line)| !line.trim().is_empty() && !line.trim_start().starts_with("//"))
}

/// Returns true if a SAFETY comment only refers to another place.
fn refers_elsewhere(line: &str) -> bool {
    let Some(argument) = line.trim().strip_prefix(concat!("// ", "SAFETY: ")) else { return false };
    let argument = argument.trim_end_matches('.');
    ["the caller's promise", "see above", "as above", "the same", "as before"].contains(&argument)
        || argument.starts_with("as for ")
        || argument.starts_with("as in ")
}

/// Returns true if a comment looks like a statement that was commented out.
fn is_commented_code(line: &str) -> bool {
    let Some(comment) = line.trim().strip_prefix("// ") else { return false };
    let starts = ["let ", "use ", "fn ", "pub ", "if ", "for ", "return ", "#["];
    let ends = [";", "{", "}"];
    starts.iter().any(|start| comment.starts_with(start)) && ends.iter().any(|end| comment.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::{UNSAFE_CRATES, check, long_comments};
    use hermit_toolchain::workspace;
    use std::fs;

    fn messages(file: &str, text: &str) -> Vec<String> {
        check(file, text).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn long_comment_is_found_unless_it_cannot_be_wrapped() {
        let long = "word ".repeat(25);
        for (text, count) in [
            (format!("//! {long}\n\n    /// {long}\n// {long}\n"), 3),
            (format!("//! A.\nlet text = \"{long}\";\n"), 0),
            (format!("//! | {long} |\n//! See https://{long}\n"), 0),
            (format!("//! ```\n//! {long}\n//! ```\n"), 0),
        ] {
            assert_eq!(long_comments(&text).len(), count, "{text}");
        }
    }

    #[test]
    fn valid_file_has_no_violation() {
        let text = "//! What it is for.\n\n// Why this is so; see the manual.\nfn main() {}\n";
        assert!(messages("examples/a/src/main.rs", text).is_empty());
    }

    #[test]
    fn each_rule_is_enforced() {
        let cases = [
            ("a/src/b.rs", "fn main() {}", "a/src/b.rs:1: a file opens"),
            ("a/src/b.rs", "//! X.\nstatic mut A: u8 = 0;", "a/src/b.rs:2: no `static mut`"),
            ("a/src/b.rs", "//! X.\n#[cfg(target_arch = \"x86_64\")]", "a/src/b.rs:2: `target_arch`"),
            ("a/src/b.rs", "//! X.\n    // let a = 1;", "a/src/b.rs:2: no commented-out code"),
            ("a/src/b.rs", "//! X.\n// SAFETY: as above.", "a/src/b.rs:2: a SAFETY comment argues"),
            ("kernel/io/src/lib.rs", "//! X.", "kernel/io/src/lib.rs:1: this crate must say"),
        ];
        for (file, text, expected) in cases {
            let found = messages(file, text);
            assert!(found.len() == 1 && found[0].starts_with(expected), "{found:?}");
        }
        let long = format!("//! X.\n{}", "fn a() {}\n".repeat(401));
        assert!(messages("a/src/b.rs", &long)[0].contains("401 lines"));
    }

    #[test]
    fn crates_forbid_unsafe_code_unless_they_are_listed() {
        for file in ["kernel/new/src/lib.rs", "xtask/new/src/main.rs", "kernel/virtio/src/lib.rs"] {
            assert_eq!(messages(file, "//! X.").len(), 1, "{file}");
        }
        for file in ["kernel/src/lib.rs", "kernel/tests/a/src/main.rs", "kernel/new/src/init.rs"] {
            assert!(messages(file, "//! X.").is_empty(), "{file}");
        }
        for krate in UNSAFE_CRATES {
            let roots =
                ["lib.rs", "main.rs"].map(|root| workspace::root().join(krate).join("src").join(root));
            let mut roots = roots.iter().filter_map(|root| fs::read_to_string(root).ok());
            assert!(roots.any(|text| !text.contains("#![forbid(unsafe_code)]")), "{krate} forbids it");
        }
    }

    #[test]
    fn check_skips_tests_and_comments() {
        let text = format!(
            "//! X.\n{}#[cfg(test)]\n{}",
            "// why\n".repeat(500),
            "static mut A: u8 = 0;\n".repeat(500)
        );
        assert!(messages("a/src/b.rs", &text).is_empty());
        assert!(messages("kernel/hal/src/arch/a.rs", "//! X.\n#[cfg(target_arch = \"x\")]").is_empty());
    }
}
