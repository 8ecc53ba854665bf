//! The lines for the target in the text of cargo's configuration.
//!
//! Lines are changed one by one, so that the user's comments and their order stay. To make sure that nothing
//! else has changed, the parsed texts before and after the change are compared.

use std::ops::Range;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use toml::{Table, Value};

use crate::rust_flags::{FLAGS, OLD_FLAGS};
use crate::target::GUEST_TARGET;

/// Returns the text with the lines of `section`, which begins with its header, in place of the lines of an
/// earlier set-up. Returns `None` if the text has the lines already.
pub(super) fn with(text: &str, section: &str) -> Result<Option<String>> {
    let (old, wanted) = (parse(text)?, parse(section)?);
    if has(&old, &wanted) {
        return Ok(None);
    }
    let lines: Vec<_> = text.split_inclusive('\n').collect();
    let new = match find(&lines) {
        Some(found) => {
            let keys = section.split_once('\n').map_or("", |(_, keys)| keys);
            let (above, below) = lines.split_at(found.start + 1);
            let kept = others(&below[..found.len() - 1]).concat();
            [&ended(above.concat()), keys, &kept, &below[found.len() - 1..].concat()].concat()
        }
        None if text.is_empty() => section.to_owned(),
        None => ended(text.to_owned()) + "\n" + section,
    };
    let is_right = parse(&new).is_ok_and(|new| has(&new, &wanted) && rest(new) == rest(old));
    ensure!(
        is_right,
        "it has other lines for {GUEST_TARGET}: replace them by these, with your flags in the same lists\n\n{section}"
    );
    Ok(Some(new))
}

/// Returns the text without the lines that set-up wrote. Returns `None` if the text has no runner for which
/// `is_removed` returns true. The header of the section stays if the section has other keys.
pub(super) fn without(text: &str, is_removed: impl Fn(&Path) -> bool) -> Result<Option<String>> {
    let old = parse(text)?;
    let ours = of_target(&old).and_then(runner).is_some_and(|runner| is_removed(Path::new(runner)));
    let lines: Vec<_> = text.split_inclusive('\n').collect();
    let Some(found) = find(&lines).filter(|_| ours) else { return Ok(None) };
    let kept = others(&lines[found.start + 1..found.end]);
    let has_keys = kept.iter().any(|line| !matches!(line.trim_start().chars().next(), None | Some('#')));
    let mut above = &lines[..found.start + usize::from(has_keys)];
    if !has_keys && let Some((last, others)) = above.split_last() {
        // Also removes the empty line above the section.
        above = if last.trim().is_empty() { others } else { above };
    }
    let new = [above.concat(), kept.concat(), lines[found.end..].concat()].concat();
    let is_right = parse(&new).is_ok_and(|new| {
        of_target(&new).is_none_or(|table| runner(table).is_none()) && rest(new) == rest(old)
    });
    ensure!(is_right, "it has the lines for {GUEST_TARGET} in a form that only you can remove");
    Ok(Some(new))
}

/// Returns true if the text has a section for the target.
pub(super) fn has_section(text: &str) -> bool {
    parse(text).is_ok_and(|table| of_target(&table).is_some())
}

/// Parses a configuration.
pub(super) fn parse(text: &str) -> Result<Table> {
    text.parse().context("it is no valid TOML")
}

fn of_target(configuration: &Table) -> Option<&Table> {
    configuration.get("target")?.get(GUEST_TARGET)?.as_table()
}

/// Returns true if a configuration has all keys that `wanted` has for the target, with the same values.
fn has(configuration: &Table, wanted: &Table) -> bool {
    let (Some(found), Some(wanted)) = (of_target(configuration), of_target(wanted)) else { return false };
    wanted.iter().all(|(key, value)| found.get(key).is_some_and(|found| says(key, found, value)))
}

/// Returns true if the value of a key is the wanted value, or a list of flags that contains all wanted flags.
fn says(key: &str, found: &Value, wanted: &Value) -> bool {
    let flags = if key.ends_with("flags") { found.as_array().zip(wanted.as_array()) } else { None };
    found == wanted || flags.is_some_and(|(found, wanted)| wanted.iter().all(|flag| found.contains(flag)))
}

/// Returns the configuration without the keys that set-up writes.
fn rest(mut configuration: Table) -> Table {
    if let Some(targets) = configuration.get_mut("target").and_then(Value::as_table_mut) {
        if let Some(table) = targets.get_mut(GUEST_TARGET).and_then(Value::as_table_mut) {
            table.remove("runner");
            table.remove("rustflags");
            table.remove("rustdocflags");
            if table.is_empty() {
                targets.remove(GUEST_TARGET);
            }
        }
        if targets.is_empty() {
            configuration.remove("target");
        }
    }
    configuration
}

/// Returns the file of a runner that set-up installed in this or another toolchain.
fn runner(table: &Table) -> Option<&str> {
    match table.get("runner")?.as_array()?.as_slice() {
        [Value::String(file), Value::String(command)] if command == "runner" => {
            file.ends_with("/hermit-runner").then_some(file)
        }
        _ => None,
    }
}

/// Returns the place of the section's header and of the lines below it.
fn find(lines: &[&str]) -> Option<Range<usize>> {
    let is_header = |line: &&str| {
        line.trim_start().starts_with('[')
            && parse(line).is_ok_and(|table| of_target(&table).is_some_and(Table::is_empty))
    };
    let start = lines.iter().position(is_header)?;
    let below = lines[start + 1..].iter().take_while(|line| !line.trim_start().starts_with('['));
    Some(start..start + 1 + below.count())
}

/// Returns the lines without those that set-up wrote.
fn others<'a>(lines: &[&'a str]) -> Vec<&'a str> {
    let flags: Vec<_> = FLAGS.lines().chain([OLD_FLAGS]).filter_map(|line| parse(line).ok()).collect();
    let is_ours = |line: &&str| {
        let table = parse(line).ok();
        table.as_ref().and_then(runner).is_some() || table.is_some_and(|table| flags.contains(&table))
    };
    lines.iter().copied().filter(|line| !is_ours(line)).collect()
}

/// Returns the text with a line feed at its end, if it is not empty.
pub(super) fn ended(mut text: String) -> String {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{has_section, with, without};

    const SECTION: &str = "[target.x86_64-unknown-hermit]\nrunner = [\"/new/hermit-runner\", \"runner\"]\n\
        rustflags = [\"-Cpanic=unwind\", \"-Clink-arg=--pack-dyn-relocs=relr\"]\n\
        rustdocflags = [\"-Cpanic=unwind\"]\n";
    const OLD: &str = "[target.x86_64-unknown-hermit]\nrunner = [\"/old/hermit-runner\", \"runner\"]\n";

    fn removed(text: &str) -> Option<String> {
        without(text, |runner| runner == "/new/hermit-runner").unwrap()
    }

    #[test]
    fn section_is_added_once_and_removed() {
        let others = ["", "[net]\noffline = true\n", "# x86_64-unknown-hermit\n\n"];
        for before in others.into_iter().chain(["[build]\ntarget = \"x86_64-unknown-hermit\"\n"]) {
            let text = with(before, SECTION).unwrap().unwrap();
            assert!(text.starts_with(before) && text.ends_with(SECTION), "{text}");
            assert_eq!(with(&text, SECTION).unwrap(), None);
            assert_eq!(removed(&text).unwrap(), before);
        }
        assert_eq!(with(OLD.trim_end(), SECTION).unwrap().unwrap(), SECTION);
        assert!(with("[net]", SECTION).unwrap().unwrap().starts_with("[net]\n\n[target."));
    }

    #[test]
    fn pasted_lines_are_recognised() {
        let indented: String = SECTION.lines().map(|line| format!("    {line}\n")).collect();
        let commented = SECTION.replace("hermit]\n", "hermit] # hermit\n\n").replace('"', "'");
        for pasted in [indented, commented] {
            assert_eq!(with(&pasted, SECTION).unwrap(), None);
            assert_eq!(removed(&pasted).unwrap().trim(), "");
        }
    }

    #[test]
    fn lines_of_another_set_up_are_replaced() {
        let flags = "rustflags = [\"-Cpanic=unwind\"]\nrustdocflags = [\"-Cpanic=unwind\"]\n";
        let flag = &flags[..flags.find('\n').unwrap() + 1];
        for old in [OLD.to_owned(), OLD.to_owned() + flag, OLD.to_owned() + flags, format!("  {OLD}")] {
            for (before, after) in [("", ""), ("[net]\n\n", "\n[alias]\nb = \"build\"\n")] {
                let text = with(&format!("{before}{old}{after}"), SECTION).unwrap().unwrap();
                assert_eq!(text.replace("  [", "["), format!("{before}{SECTION}{after}"));
            }
            assert_eq!(removed(&old), None);
        }
    }

    #[test]
    fn other_keys_stay_in_their_section() {
        let user = "linker = \"mine\"\n";
        let text = with(&format!("{OLD}{user}\n[net]\n"), SECTION).unwrap().unwrap();
        assert_eq!(text, format!("{SECTION}{user}\n[net]\n"));
        assert_eq!(with(&text, SECTION).unwrap(), None);
        assert_eq!(removed(&text).unwrap(), format!("[target.x86_64-unknown-hermit]\n{user}\n[net]\n"));
    }

    #[test]
    fn blank_lines_and_comments_of_others_stay() {
        let text = format!("[net]\n\n\n{SECTION}\n# short\n[alias]\nb = \"build\"\n");
        assert_eq!(removed(&text).unwrap(), "[net]\n\n\n# short\n[alias]\nb = \"build\"\n");
    }

    #[test]
    fn flags_may_be_beside_others() {
        let text = SECTION.replace("[\"-Cpanic=unwind\"", "[\"--cfg=a\", \"-Cpanic=unwind\"");
        assert_ne!(text, SECTION);
        assert_eq!(with(&text, SECTION).unwrap(), None);
        assert!(with(&text.replace("-Cpanic=unwind", "-Cpanic=abort"), SECTION).is_err());
    }

    #[test]
    fn lines_of_the_user_are_not_replaced() {
        let header = "[target.x86_64-unknown-hermit]\n";
        let own = [
            "runner = \"mine\"\n",
            "rustdocflags = [\"--cfg=a\"]\n",
            "rustflags = [\"-Copt-level=1\"]\n",
            "runner = [\n\"a\",\n]\n",
        ];
        for text in own.map(|line| format!("{header}{line}")) {
            assert!(with(&text, SECTION).unwrap_err().to_string().contains("other lines"), "{text}");
            assert!(removed(&text).is_none() && has_section(&text));
        }
        assert!(with("broken", SECTION).is_err());
    }
}
