//! Standard streams of this process, which become those of the guest.

use std::fs::File;
use std::io::{self, IsTerminal, stderr, stdin, stdout};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

use crate::config::ConsoleMode;
use crate::devices::console::{ConsoleInput, Output};

/// Standard streams of this process, duplicated.
#[derive(Debug)]
pub(crate) struct StandardStreams {
    /// Standard input.
    pub(crate) input: ConsoleInput,
    /// Standard output.
    pub(crate) output: Output,
    /// Standard error; `None` if it is the same file as standard output, such as one terminal or the pipe of
    /// `2>&1`. The guest then has one stream for both, which keeps the order of their output.
    pub(crate) error: Option<Output>,
}

impl StandardStreams {
    /// Duplicates the standard streams. `mode` says how output is written.
    ///
    /// # Errors
    ///
    /// The host has no more file descriptors.
    pub(crate) fn open(mode: ConsoleMode) -> io::Result<Self> {
        let input = File::from(stdin().as_fd().try_clone_to_owned()?);
        let output = File::from(stdout().as_fd().try_clone_to_owned()?);
        let error = File::from(stderr().as_fd().try_clone_to_owned()?);
        let is_shared = is_same_file(&output, &error)?;
        let output_of = |file: File| {
            let is_escaped = match mode {
                ConsoleMode::Auto => file.is_terminal(),
                ConsoleMode::Raw => false,
                ConsoleMode::Escaped => true,
            };
            Output::file(file, is_escaped)
        };
        Ok(Self {
            input: ConsoleInput::quoted(input),
            output: output_of(output),
            error: (!is_shared).then(|| output_of(error)),
        })
    }
}

/// Returns true if two descriptors refer to the same file, pipe, socket or terminal.
fn is_same_file(one: &File, other: &File) -> io::Result<bool> {
    let (one, other) = (one.metadata()?, other.metadata()?);
    Ok((one.dev(), one.ino()) == (other.dev(), other.ino()))
}

#[cfg(test)]
mod tests {
    use super::is_same_file;
    use std::fs::{File, OpenOptions};
    use std::io;
    use std::os::fd::OwnedFd;

    #[test]
    fn pipes_are_the_same_file_if_they_have_the_same_reader() {
        let pipe = || {
            let (reader, writer) = io::pipe().unwrap();
            (reader, File::from(OwnedFd::from(writer)))
        };
        let ((_reader, writer), (_other_reader, other)) = (pipe(), pipe());
        assert!(is_same_file(&writer, &writer.try_clone().unwrap()).unwrap());
        assert!(!is_same_file(&writer, &other).unwrap());
    }

    #[test]
    fn files_are_the_same_however_they_were_opened() {
        let folder = tempfile::tempdir().unwrap();
        let open = |name| {
            let path = folder.path().join(name);
            OpenOptions::new().create(true).append(true).open(path).unwrap()
        };
        assert!(is_same_file(&open("log"), &open("log")).unwrap());
        assert!(!is_same_file(&open("log"), &open("other")).unwrap());
    }
}
