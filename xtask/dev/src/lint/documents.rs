//! Rules for Markdown files: lines fit a terminal; files and sections that the text names or links exist; and
//! code that is quoted from a file is in that file.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::rules::Violation;

/// Maximum length of a line in characters. Table rows and code may be longer.
const MAX_LINE: usize = 120;

/// Folders of the repository. A path in code quotes is checked if it starts with one of them.
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

/// Start of a line `<!-- file: PATH -->`. The code block after that line is quoted from the file.
const QUOTED_FILE: &str = "<!-- file: ";

/// Checks a Markdown file; `root` is the repository's folder.
pub(super) fn check(root: &Path, file: &str, text: &str) -> Vec<Violation> {
    let folder = Path::new(file).parent().unwrap_or(Path::new(""));
    let mut found = misquotations(root, file, text);
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
        for (path, anchor) in links(line) {
            let target = if path.is_empty() { root.join(file) } else { root.join(folder).join(path) };
            if !path.is_empty() && !target.exists() {
                found.push(Violation::new(file, number, format!("the link to {path} leads nowhere")));
            } else if let Some(anchor) = anchor
                && !has_section(&target, if path.is_empty() { Some(text) } else { None }, anchor)
            {
                found.push(Violation::new(
                    file,
                    number,
                    format!("{path}#{anchor}: no section has this anchor"),
                ));
            }
        }
    }
    found
}

/// Returns the code blocks that are quoted from a file ([`QUOTED_FILE`]) but are not a part of it.
fn misquotations(root: &Path, file: &str, text: &str) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut lines = (0..).zip(text.lines());
    while let Some((number, line)) = lines.next() {
        let Some(path) = line.strip_prefix(QUOTED_FILE).and_then(|rest| rest.strip_suffix(" -->")) else {
            continue;
        };
        let code = lines.by_ref().map(|(_, line)| line).skip(1).take_while(|line| *line != "```");
        let code: String = code.flat_map(|line| [line, "\n"]).collect();
        if !fs::read_to_string(root.join(path)).is_ok_and(|content| content.contains(&code)) {
            found.push(Violation::new(file, number, format!("this block is not a part of {path}")));
        }
    }
    found
}

/// Returns the paths of this repository in code quotes, except paths with a placeholder.
fn quoted_paths(line: &str) -> impl Iterator<Item = &str> {
    let quoted = line.split('`').skip(1).step_by(2);
    let is_path = |text: &&str| FOLDERS.iter().any(|folder| text.starts_with(folder));
    let is_plain = |text: &&str| {
        !text.contains(|c: char| c.is_whitespace() || "*<>{}()[]".contains(c) || c.is_control())
    };
    let has_placeholder = |text: &&str| text.contains("NAME") || text.contains("target/");
    quoted.filter(is_path).filter(is_plain).filter(move |text| !has_placeholder(text))
}

/// Returns the targets of relative links, as pairs of a path and an anchor. The path is empty for a section
/// of the same file.
fn links(line: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    line.split("](").skip(1).filter_map(|rest| {
        let target = rest.split(')').next()?;
        let (path, anchor) =
            target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
        (!target.is_empty() && !target.contains("://")).then_some((path, anchor))
    })
}

/// Returns true if a file has a section with this anchor, or is not a Markdown file. `text` is the contents
/// of the file, if they have been read already.
fn has_section(file: &Path, text: Option<&str>, anchor: &str) -> bool {
    if file.extension().is_none_or(|extension| extension != "md") {
        return true;
    }
    let read = || fs::read_to_string(file).unwrap_or_default();
    anchors(&text.map_or_else(read, str::to_owned)).iter().any(|other| other == anchor)
}

/// Returns the anchors that GitHub gives the headings of a Markdown file. In an anchor, letters are in lower
/// case, hyphens replace spaces, and punctuation other than hyphens and underscores is removed. A repeated
/// anchor gets a number at its end.
fn anchors(text: &str) -> Vec<String> {
    let (mut in_code, mut uses) = (false, BTreeMap::<String, u32>::new());
    let headings = text.lines().filter(|line| {
        in_code ^= line.trim_start().starts_with("```");
        !in_code && line.starts_with('#') && line.trim_start_matches('#').starts_with(' ')
    });
    let anchor = |heading: &str| -> String {
        let letters = heading.trim_start_matches('#').trim().chars();
        let kept = letters.filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
        kept.flat_map(char::to_lowercase).map(|letter| if letter == ' ' { '-' } else { letter }).collect()
    };
    let numbered = |anchor: String| {
        let earlier = uses.entry(anchor.clone()).or_default();
        *earlier += 1;
        if *earlier == 1 { anchor } else { format!("{anchor}-{}", *earlier - 1) }
    };
    headings.map(anchor).map(numbered).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{anchors, check, links, quoted_paths};

    #[test]
    fn quoted_paths_are_those_of_the_repository() {
        let line = "see `kernel/src/init.rs`, `cargo xtask run`, `kernel/src/*.rs` and `docs/NAME.md`";
        assert_eq!(quoted_paths(line).collect::<Vec<_>>(), ["kernel/src/init.rs"]);
    }

    #[test]
    fn links_are_relative_targets_with_anchor() {
        let line = "[a](b.md#c) [d](https://e.f#g) [h](#i) ![j](../k.svg)";
        assert_eq!(
            links(line).collect::<Vec<_>>(),
            [("b.md", Some("c")), ("", Some("i")), ("../k.svg", None)]
        );
    }

    #[test]
    fn anchors_are_those_of_headings() {
        let text = "# A title\n## `uhyve`: KVM & more\n```\n# no heading\n```\n#no_heading\n### A title\n## x-y_z?\n";
        assert_eq!(anchors(text), ["a-title", "uhyve-kvm--more", "a-title-1", "x-y_z"]);
    }

    #[test]
    fn missing_sections_are_reported() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("b.md"), "# Here\n").unwrap();
        std::fs::write(root.path().join("c.rs"), "").unwrap();
        let text = "# Own\n[a](#own)\n[a](#other)\n[b](b.md#here)\n[b](b.md#there)\n[b](b.md)\n[c](c.rs#L1)\n```\n[d](#e)\n```\n";
        let found: Vec<String> = check(root.path(), "a.md", text).iter().map(ToString::to_string).collect();
        let expected = ["a.md:3: #other: no section", "a.md:5: b.md#there: no section"];
        assert_eq!(found.len(), expected.len(), "{found:?}");
        assert!(found.iter().zip(expected).all(|(message, start)| message.starts_with(start)), "{found:?}");
    }

    #[test]
    fn quoted_code_that_differs_from_its_file_is_reported() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("c.rs"), "one\ntwo\nthree\n").unwrap();
        let block = |file: &str, code: &str| format!("<!-- file: {file} -->\n```rust\n{code}\n```\n");
        let text = [block("c.rs", "two\nthree"), block("c.rs", "two\nfour"), block("d.rs", "two")].concat();
        let found: Vec<String> = check(root.path(), "a.md", &text).iter().map(ToString::to_string).collect();
        let expected =
            ["a.md:6: this block is not a part of c.rs", "a.md:11: this block is not a part of d.rs"];
        assert_eq!(found, expected);
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
