//! The standard streams of a guest.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Child;
use std::thread;

use hermit_interface::console::{END_OF_FILE, LITERAL_NEXT, needs_quoting};

/// Standard input of a guest.
#[derive(Debug, Clone)]
pub enum Input {
    /// The standard input of this process.
    Inherit,
    /// These bytes, then the end of file.
    Bytes(Vec<u8>),
}

/// Encodes all input of a guest for its console, followed by the end of file.
pub fn quoted(mut bytes: &[u8]) -> Vec<u8> {
    let mut quoted = Vec::new();
    // Writing to a vector does not fail.
    relay(&mut bytes, &mut quoted).unwrap_or_default();
    quoted
}

/// Starts a thread that copies the input to the guest. The thread ends with the guest or with this process.
pub(super) fn feed(child: &mut Child, input: Input) {
    let Some(pipe) = child.stdin.take() else { return };
    thread::spawn(move || feed_pipe(pipe, input));
}

fn feed_pipe(mut pipe: impl Write, input: Input) {
    // Writing fails when the guest has exited; then the rest of the input is not needed.
    let _: io::Result<()> = match input {
        Input::Inherit => relay(&mut io::stdin().lock(), &mut pipe),
        Input::Bytes(bytes) => relay(&mut bytes.as_slice(), &mut pipe),
    };
    // The pipe stays open: QEMU closes the console when its input is closed.
    std::mem::forget(pipe);
}

/// Starts a thread that copies the input to the guest's virtio console, through a FIFO that QEMU opens.
pub(super) fn feed_device(fifo: PathBuf, input: Input) {
    thread::spawn(move || {
        // The open blocks until QEMU opens the FIFO. If QEMU fails before, the thread stays until this
        // process ends.
        if let Ok(file) = OpenOptions::new().write(true).open(fifo) {
            feed_pipe(file, input);
        }
    });
}

/// Copies standard error of QEMU and the guest to that of this process.
pub(super) fn relay_errors(mut pipe: impl Read) {
    if io::copy(&mut pipe, &mut io::stderr()).is_err() {
        // If standard error has no reader, drops the rest, so that the guest does not block.
        let _: io::Result<u64> = io::copy(&mut pipe, &mut io::sink());
    }
}

/// Returns true if two descriptors refer to the same file, pipe, socket or terminal.
pub(super) fn is_same_file(one: BorrowedFd<'_>, other: BorrowedFd<'_>) -> bool {
    let identity = |descriptor: BorrowedFd<'_>| -> io::Result<(u64, u64)> {
        let metadata = File::from(descriptor.try_clone_to_owned()?).metadata()?;
        Ok((metadata.dev(), metadata.ino()))
    };
    matches!((identity(one), identity(other)), (Ok(one), Ok(other)) if one == other)
}

/// Copies bytes, encoded for the guest's console, and appends the code for the end of file.
fn relay(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut buffer = [0; 4096];
    loop {
        let count = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        let quoted: Vec<u8> = buffer[..count].iter().flat_map(|&byte| quote(byte)).collect();
        to.write_all(&quoted)?;
        to.flush()?;
    }
    to.write_all(&[END_OF_FILE])?;
    to.flush()
}

fn quote(byte: u8) -> impl Iterator<Item = u8> {
    needs_quoting(byte).then_some(LITERAL_NEXT).into_iter().chain([byte])
}

pub(super) fn drain(mut pipe: impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    // An error is ignored: the function returns the bytes that were read before.
    let _: io::Result<usize> = pipe.read_to_end(&mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::{is_same_file, quoted};
    use std::io;
    use std::os::fd::AsFd;

    #[test]
    fn descriptors_of_one_pipe_are_the_same_file() {
        let ((_reader, writer), (_other_reader, other)) = (io::pipe().unwrap(), io::pipe().unwrap());
        let duplicate = writer.try_clone().unwrap();
        assert!(is_same_file(writer.as_fd(), duplicate.as_fd()));
        assert!(!is_same_file(writer.as_fd(), other.as_fd()));
    }

    #[test]
    fn input_is_quoted_and_ends_with_end_of_file() {
        assert_eq!(quoted(b"a\x04\x16\r\n"), b"a\x16\x04\x16\x16\x16\r\n\x04");
    }
}
