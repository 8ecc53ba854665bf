//! The files of a guest, each in the guest's own folder: exit status, standard input, monitor.

use std::fs;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::fs::{CWD, FileType, Mode, mknodat};

/// Returns the exit status that a guest wrote to its file in `folder`, if it wrote one.
pub fn status(folder: &Path) -> Option<u8> {
    match fs::read(status_file(folder)).unwrap_or_default()[..] {
        [status] => Some(status),
        _ => None,
    }
}

/// Presses the power button of the guest in `folder`, if the guest's program handles requests to end. Returns
/// the connection to QEMU's monitor. The caller must keep it open until QEMU has read the command.
pub(super) fn press_power_button(folder: &Path) -> Option<UnixStream> {
    let is_handled = fs::metadata(handled_file(folder)).is_ok_and(|file| file.len() > 0);
    is_handled.then(|| send_to_monitor(folder, "system_powerdown"))?.ok()
}

/// Sends a command to the monitor of the guest whose files are in `folder`. Returns the connection. The
/// caller must keep it open until QEMU has read the command.
pub fn send_to_monitor(folder: &Path, command: &str) -> io::Result<UnixStream> {
    let mut connection = UnixStream::connect(monitor(folder))?;
    connection.write_all(command.as_bytes())?;
    connection.write_all(b"\n")?;
    Ok(connection)
}

/// Returns the path of the file of the exit status.
pub(super) fn status_file(folder: &Path) -> PathBuf {
    folder.join("status")
}

/// Returns the path of the file to which the guest writes as soon as its program handles requests to end.
pub(super) fn handled_file(folder: &Path) -> PathBuf {
    folder.join("handled")
}

/// Returns the path of the FIFO for standard input, which exists if the guest reads its input from a virtio
/// console.
pub fn input_fifo(folder: &Path) -> PathBuf {
    folder.join("input")
}

/// Makes the FIFO for standard input, and returns its path.
pub(super) fn make_input_fifo(folder: &Path) -> Result<PathBuf> {
    let fifo = input_fifo(folder);
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
        .context("cannot make a FIFO in a temporary folder")?;
    Ok(fifo)
}

/// Returns the path of the socket of QEMU's monitor.
pub(super) fn monitor(folder: &Path) -> PathBuf {
    folder.join("monitor")
}
