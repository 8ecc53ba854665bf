//! Rules of Markdown files: lines fit a terminal, and the files that they name or link exist.

use std::path::Path;

use super::rules::Violation;

/// Maximum length of a line in characters, except of rows of tables and of code.
const MAX_LINE: usize = 120;

/// Folders of the repository with which a path in code quotes starts.
const FOLDERS: [&str; 9] = [
    "kernel/",
    "hermit-abi/",
    "hermit-sys/",
    "loader/",
    "hypervisor/",
    "examples/",
    "xtask/",
    "docs/",
    ".ci/",
];

/// Checks a Markdown file; `root` is the repository's folder.
pub(super) fn check(root: &Path, file: &str, text: &str) -> Vec<Violation> {
    let folder = Path::new(file).parent().unwrap_or(Path::new(""));
    let mut found = Vec::new();
    let mut in_code = false;
    for (number, line) in (0..).zip(text.lines()) {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        let is_table = line.trim_start().starts_with('|');
        if !in_code && !is_table && line.chars().count() > MAX_LINE {
            found.push(Violation::new(file, number, format!("a line has at most {MAX_LINE} characters")));
        }
        if in_code {
            continue;
        }
        for path in quoted_paths(line).filter(|path| !root.join(path).exists()) {
            found.push(Violation::new(file, number, format!("`{path}` does not exist")));
        }
        for link in links(line).filter(|link| !root.join(folder).join(link).exists()) {
            found.push(Violation::new(file, number, format!("the link to {link} leads nowhere")));
        }
    }
    found
}

/// Paths of this repository in code quotes, without those that have a placeholder.
fn quoted_paths(line: &str) -> impl Iterator<Item = &str> {
    let quoted = line.split('`').skip(1).step_by(2);
    let is_path = |text: &&str| FOLDERS.iter().any(|folder| text.starts_with(folder));
    let is_plain = |text: &&str| {
        !text.contains(|c: char| c.is_whitespace() || "*<>{}()[]".contains(c) || c.is_control())
    };
    let has_placeholder = |text: &&str| text.contains("NAME") || text.contains("target/");
    quoted.filter(is_path).filter(is_plain).filter(move |text| !has_placeholder(text))
}

/// Targets of relative links, without anchors.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| {
        let target = rest.split(')').next()?.split('#').next()?;
        (!target.is_empty() && !target.contains("://")).then_some(target)
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{check, links, quoted_paths};

    #[test]
    fn quoted_paths_are_those_of_the_repository() {
        let line = "see `kernel/src/init.rs`, `cargo xtask run`, `kernel/src/*.rs` and `docs/NAME.md`";
        assert_eq!(quoted_paths(line).collect::<Vec<_>>(), ["kernel/src/init.rs"]);
    }

    #[test]
    fn links_are_relative_targets_without_anchor() {
        let line = "[a](b.md#c) [d](https://e.f) [g](#h) ![i](../j.svg)";
        assert_eq!(links(line).collect::<Vec<_>>(), ["b.md", "../j.svg"]);
    }

    #[test]
    fn long_lines_and_missing_targets_are_reported() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let long = "x".repeat(121);
        let text =
            format!("{long}\n| {long} |\n[a](src/none.rs)\n`kernel/none.rs`\n```\n{long}\n```\n[a](src)\n");
        let found: Vec<String> = check(root, "a.md", &text).iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 3, "{found:?}");
    }
}
