//! Text as a word of a shell's command line, and as a string of TOML.

use std::ffi::OsStr;
use std::path::Path;

/// Quotes a word for a shell's command line. If the word contains NUL or bytes that are not UTF-8, the result
/// is only for reading: no shell accepts it.
pub fn shell_word(word: impl AsRef<OsStr>) -> String {
    let word = word.as_ref().to_string_lossy();
    shlex::try_quote(&word).map_or_else(|_| word.to_string(), |quoted| quoted.into_owned())
}

/// Quotes a path as a basic string of TOML. A JSON string is a basic string, except that TOML requires an
/// escape for the control character DEL (TOML 1.0, String).
pub(crate) fn toml_string(path: impl AsRef<Path>) -> String {
    serde_json::Value::from(path.as_ref().to_string_lossy()).to_string().replace('\u{7f}', "\\u007f")
}

#[cfg(test)]
mod tests {
    use super::{shell_word, toml_string};
    use std::process::Command;

    /// Names with characters that need quoting. Rust's debug format of most of them is valid neither in a
    /// shell nor in TOML.
    const NAMES: [&str; 6] =
        ["plain", "a b", "$HOME `id`", "e\u{301}\u{200b}", "quote\"'\\", "tab\tline\ndel\u{7f}"];

    #[test]
    fn shell_reads_the_word_that_was_quoted() {
        for name in NAMES {
            let script = format!("printf %s {}", shell_word(name));
            let output = Command::new("sh").args(["-c", &script]).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), name);
        }
    }

    #[test]
    fn toml_reads_the_string_that_was_quoted() {
        for name in NAMES {
            let table: toml::Table = format!("name = {}", toml_string(name)).parse().unwrap();
            assert_eq!(table["name"].as_str(), Some(name));
        }
    }
}
