//! Environment variables of the guest's program: the values of `--env` and `--env-file`.
//!
//! The program gets only the variables that are given here, none of uhyve's own. `--env-file` reads a file in
//! the format of `docker run`, with one variable a line. If a name occurs more than once, the last value
//! counts; options come after files, so an option replaces a variable of a file. A key without a value takes
//! the value from uhyve's own environment. If uhyve has no such variable, the key is ignored.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use clap::builder::{OsStringValueParser, TypedValueParser, ValueParserFactory};

use crate::open::{Kind, Opener};

/// Maximum size in bytes of a file with variables: Linux's default limit for all arguments and variables of a
/// program (execve(2)).
const MAX_FILE_SIZE: u64 = 2 << 20;

/// Why a file with variables cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EnvironmentError {
    /// The file cannot be read.
    #[error("cannot read the environment file {file}: {source}", file = .file.display())]
    Read {
        /// Path of the file.
        file: PathBuf,
        /// Error of the host.
        source: io::Error,
    },
    /// A line has no variable.
    #[error("{file}, line {line}: {reason}", file = .file.display())]
    Line {
        /// Path of the file.
        file: PathBuf,
        /// Number of the line. The first line is 1.
        line: usize,
        /// Error in the line. It does not quote the line, which may be secret.
        reason: &'static str,
    },
}

/// An environment variable, `KEY=VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable(OsString);

impl Variable {
    /// Returns the variable as in the guest's environment, `KEY=VALUE`.
    #[must_use]
    pub fn as_os_str(&self) -> &OsStr {
        &self.0
    }

    /// Returns the bytes of [`Self::as_os_str`].
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.0.into_vec()
    }

    fn key(&self) -> &[u8] {
        self.0.as_encoded_bytes().split(|&byte| byte == b'=').next().unwrap_or_default()
    }
}

impl TryFrom<OsString> for Variable {
    type Error = String;

    fn try_from(text: OsString) -> Result<Self, String> {
        match text.as_encoded_bytes().iter().position(|&byte| byte == b'=') {
            Some(1..) => Ok(Self(text)),
            _ => Err("an environment variable is written KEY=VALUE".to_owned()),
        }
    }
}

/// The value of `--env`: `KEY=VALUE`, or `KEY` for a variable with the host's value, which need not be UTF-8.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvOption(OsString);

impl EnvOption {
    /// Returns the value as it was given.
    #[must_use]
    pub fn as_os_str(&self) -> &OsStr {
        &self.0
    }

    /// Returns the variable; `None` if only the key is given and uhyve has no such variable.
    fn variable(&self) -> Option<Variable> {
        let value = match Variable::try_from(self.0.clone()) {
            Ok(variable) => return Some(variable),
            Err(_) => env::var_os(&self.0)?,
        };
        let mut text = self.0.clone();
        text.push("=");
        text.push(value);
        Some(Variable(text))
    }
}

impl TryFrom<OsString> for EnvOption {
    type Error = String;

    fn try_from(text: OsString) -> Result<Self, String> {
        match text.as_encoded_bytes().first() {
            None | Some(b'=') => {
                Err("an environment variable is written KEY=VALUE, or KEY for the host's value".to_owned())
            }
            Some(_) => Ok(Self(text)),
        }
    }
}

impl ValueParserFactory for EnvOption {
    type Parser = clap::builder::ValueParser;

    fn value_parser() -> Self::Parser {
        OsStringValueParser::new().try_map(Self::try_from).into()
    }
}

/// Returns the variables of `files`, and then those of `options`. If several have the same name, only the
/// last one counts.
pub(crate) fn merge(
    opener: &Opener,
    files: &[PathBuf],
    options: &[EnvOption],
) -> Result<Vec<Variable>, EnvironmentError> {
    let mut variables = Vec::new();
    for file in files {
        variables.extend(read(opener, file)?);
    }
    variables.extend(options.iter().filter_map(EnvOption::variable));
    let mut merged: Vec<Variable> = Vec::new();
    for variable in variables {
        merged.retain(|earlier| earlier.key() != variable.key());
        merged.push(variable);
    }
    Ok(merged)
}

fn read(opener: &Opener, file: &Path) -> Result<Vec<Variable>, EnvironmentError> {
    let failed = |source| EnvironmentError::Read { file: file.to_owned(), source };
    let mut text = String::new();
    let opened = opener.read(file, Kind::File).map_err(failed)?;
    opened.take(MAX_FILE_SIZE + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > MAX_FILE_SIZE {
        return Err(failed(io::ErrorKind::FileTooLarge.into()));
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let mut variables = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line_error = |reason| EnvironmentError::Line { file: file.to_owned(), line: index + 1, reason };
        variables.extend(parse_line(line).map_err(line_error)?);
    }
    Ok(variables)
}

/// Parses a line in the format of `docker run --env-file`: blanks before the key are ignored, `#` begins a
/// comment line, the value is everything after the first `=`, quotes and blanks included, and a key alone
/// takes the host's value.
fn parse_line(line: &str) -> Result<Option<Variable>, &'static str> {
    let line = line.trim_start();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let key = line.split('=').next().unwrap_or_default();
    if key.contains(char::is_whitespace) {
        return Err("the name of a variable has no blanks; write KEY=VALUE");
    }
    if line.contains('\0') {
        return Err("a variable has no null byte");
    }
    let option = EnvOption::try_from(OsString::from(line)).map_err(|_| "there is no name before `=`")?;
    Ok(option.variable())
}

#[cfg(test)]
mod tests {
    use super::{EnvOption, EnvironmentError, MAX_FILE_SIZE, Variable, merge, parse_line};
    use crate::open::Opener;
    use proptest::prelude::*;
    use std::ffi::OsString;
    use std::fs;

    fn option(text: &str) -> EnvOption {
        EnvOption::try_from(OsString::from(text)).unwrap()
    }

    #[test]
    fn option_is_a_variable_or_a_name_of_the_host() {
        assert_eq!(option("A=b=c").variable().unwrap().into_bytes(), b"A=b=c");
        assert_eq!(option("A=").variable().unwrap().into_bytes(), b"A=");
        let path = [b"PATH=", std::env::var_os("PATH").unwrap().as_encoded_bytes()].concat();
        assert_eq!(option("PATH").variable().unwrap().into_bytes(), path);
        assert_eq!(option("HERMIT_NO_SUCH_VARIABLE").variable(), None);
        for text in ["", "=b"] {
            assert!(EnvOption::try_from(OsString::from(text)).unwrap_err().contains("KEY=VALUE"), "{text}");
        }
    }

    #[test]
    fn variable_without_a_name_or_value_is_an_error() {
        for text in ["", "A", "=b"] {
            assert!(Variable::try_from(OsString::from(text)).is_err(), "{text}");
        }
    }

    #[test]
    fn lines_have_the_format_of_docker() {
        for (line, expected) in [
            ("A=b", Some("A=b")),
            ("  A=\"b c\" # d ", Some("A=\"b c\" # d ")),
            ("A=b=c", Some("A=b=c")),
            ("A=", Some("A=")),
            ("# A=b", None),
            ("   ", None),
            ("HERMIT_NO_SUCH_VARIABLE", None),
        ] {
            let variable = parse_line(line).unwrap();
            assert_eq!(variable, expected.map(|text| Variable(text.into())), "{line}");
        }
        for line in ["=b", "export A=b", "A =b", "A=\0"] {
            assert!(parse_line(line).is_err(), "{line}");
        }
    }

    #[test]
    fn later_variables_replace_earlier_ones_of_the_name() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("env");
        fs::write(&file, "\u{feff}A=1\r\nB=2\n#C=3\n").unwrap();
        let merged = merge(&Opener::default(), &[file], &[option("A=4"), option("D=5")]).unwrap();
        assert_eq!(merged.into_iter().map(|it| it.0).collect::<Vec<_>>(), ["B=2", "A=4", "D=5"]);
    }

    #[test]
    fn invalid_file_is_an_error_with_the_line_and_without_its_text() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("env");
        assert!(matches!(
            merge(&Opener::default(), std::slice::from_ref(&file), &[]),
            Err(EnvironmentError::Read { .. })
        ));
        fs::write(&file, "A=1\nmy secret\n").unwrap();
        let error = merge(&Opener::default(), &[file], &[]).unwrap_err().to_string();
        assert!(error.contains("line 2: ") && !error.contains("secret"), "{error}");
    }

    #[test]
    fn file_is_read_up_to_its_limit() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let size = usize::try_from(MAX_FILE_SIZE).unwrap();
        for (length, is_read) in [(size, true), (size + 1, false)] {
            fs::write(file.path(), "A=".to_owned() + &"b".repeat(length - 2)).unwrap();
            let merged = merge(&Opener::default(), &[file.path().to_owned()], &[]);
            assert_eq!(merged.is_ok(), is_read, "{length}");
        }
    }

    proptest! {
        #[test]
        fn parser_accepts_arbitrary_lines(line: String) {
            if let Ok(Some(variable)) = parse_line(&line) {
                prop_assert!(Variable::try_from(variable.0).is_ok());
            }
        }
    }
}
