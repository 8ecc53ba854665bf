//! The variables for crates that compile C, in the section `[env]` of cargo's configuration. The text is
//! changed line by line, as for the section of the target.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use toml::{Table, Value};

use super::text::{ended, parse};
use crate::quote::toml_string;

/// Ending of the names of the variables.
const ENDING: &str = "_x86_64_unknown_hermit";

const HEADER: &str = "[env]\n";

/// Returns the lines of the section, ready to be pasted.
pub(super) fn section(variables: &[(&str, PathBuf)]) -> String {
    HEADER.to_owned() + &lines(variables)
}

fn lines(variables: &[(&str, PathBuf)]) -> String {
    variables.iter().map(|(name, value)| format!("{name} = {}\n", toml_string(value))).collect()
}

/// Returns the text with the variables, in place of those of an earlier set-up. Returns `None` if the text
/// has them already.
pub(super) fn with(text: &str, variables: &[(&str, PathBuf)]) -> Result<Option<String>> {
    let (old, wanted) = (parse(text)?, parse(&section(variables))?);
    let has = |table: &Table| {
        let variables = wanted["env"].as_table().into_iter().flatten();
        variables
            .into_iter()
            .all(|(name, value)| table.get("env").and_then(|env| env.get(name)) == Some(value))
    };
    if has(&old) {
        return Ok(None);
    }
    let kept = removed(text);
    let new = match kept.split_inclusive('\n').position(|line| line.trim() == HEADER.trim()) {
        Some(header) => {
            let all: Vec<_> = kept.split_inclusive('\n').collect();
            let (above, below) = all.split_at(header + 1);
            ended(above.concat()) + &lines(variables) + &below.concat()
        }
        None if kept.is_empty() => section(variables),
        None => ended(kept) + "\n" + &section(variables),
    };
    let is_right = parse(&new).is_ok_and(|new| has(&new) && rest(new) == rest(old));
    ensure!(is_right, "it has other lines: add to its section [env]\n\n{}", lines(variables));
    Ok(Some(new))
}

/// Returns the text without the variables that set-up wrote. Returns `None` if the text has none of them.
pub(super) fn without(text: &str) -> Result<Option<String>> {
    let old = parse(text)?;
    let new = removed(text);
    if new == text {
        return Ok(None);
    }
    ensure!(parse(&new).is_ok_and(|new| rest(new) == rest(old)), "only you can remove its variables for C");
    Ok(Some(new))
}

/// Returns the text without the lines that set-up wrote, and without the section if nothing else is in it.
fn removed(text: &str) -> String {
    let mut lines: Vec<_> = text.split_inclusive('\n').filter(|line| !is_ours(line)).collect();
    if lines.concat() == text {
        return text.to_owned();
    }
    let header = lines.iter().position(|line| line.trim() == HEADER.trim());
    if let Some(header) = header
        && lines.get(header + 1).is_none_or(|next| next.trim().is_empty() || next.starts_with('['))
    {
        // Also removes the empty line above the header.
        let gap = header > 0 && lines[header - 1].trim().is_empty();
        lines.drain(header - usize::from(gap)..=header);
    }
    lines.concat()
}

fn is_ours(line: &str) -> bool {
    let Ok(table) = parse(line) else { return false };
    let mut keys = table.iter();
    let (Some((name, Value::String(value))), None) = (keys.next(), keys.next()) else { return false };
    name.ends_with(ENDING) && (value.contains("/x86_64-unknown-hermit/c/bin/") || value == "ar")
}

/// Returns the configuration without the variables.
fn rest(mut configuration: Table) -> Table {
    if let Some(variables) = configuration.get_mut("env").and_then(Value::as_table_mut) {
        variables.retain(|name, _| !name.ends_with(ENDING));
        if variables.is_empty() {
            configuration.remove("env");
        }
    }
    configuration
}

#[cfg(test)]
mod tests {
    use super::{section, with, without};
    use std::path::PathBuf;

    fn variables(folder: &str) -> Vec<(&'static str, PathBuf)> {
        let compiler =
            PathBuf::from(format!("/{folder}/lib/rustlib/x86_64-unknown-hermit/c/bin/x86_64-hermit-gcc"));
        vec![("CC_x86_64_unknown_hermit", compiler), ("AR_x86_64_unknown_hermit", "ar".into())]
    }

    #[test]
    fn variables_are_added_once_replaced_and_removed() {
        let new = variables("new");
        for before in ["", "[net]\noffline = true\n", "[env]\nMINE = \"1\"\n\n[net]\noffline = true\n"] {
            let old = with(before, &variables("old")).unwrap().unwrap_or_default();
            let text = with(&old, &new).unwrap().unwrap();
            assert!(text.contains("/new/") && !text.contains("/old/"), "{text}");
            assert_eq!(with(&text, &new).unwrap(), None);
            assert_eq!(without(&text).unwrap().unwrap(), before);
            assert_eq!(without(before).unwrap(), None);
        }
        assert_eq!(with("", &new).unwrap().unwrap(), section(&new));
    }

    #[test]
    fn variables_of_the_user_are_not_replaced() {
        for text in ["[env]\nCC_x86_64_unknown_hermit = \"mine\"\n", "env = { A = \"1\" }\n", "broken"] {
            assert!(with(text, &variables("new")).is_err(), "{text}");
            assert!(!matches!(without(text), Ok(Some(_))), "{text}");
        }
    }
}
