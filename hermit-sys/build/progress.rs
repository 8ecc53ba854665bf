//! Notes to the user about what takes long.
//!
//! Cargo keeps the output of build scripts to itself until they fail. A note therefore goes where cargo's own messages go: to
//! the standard error of the cargo process, unless cargo runs with `--quiet`.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::process::parent_id;

/// The flag of open(2), on x86-64.
const O_APPEND: u32 = 0o2000;

/// Prints a line in the format of cargo's messages. One that cannot be printed is lost.
pub(crate) fn note(verb: &str, text: &str) {
    let cargo = format!("/proc/{}", parent_id());
    let command = fs::read(format!("{cargo}/cmdline")).unwrap_or_default();
    let is_quiet = command.split(|byte| *byte == 0).any(|word| word == b"-q" || word == b"--quiet");
    let stderr = format!("{cargo}/fd/2");
    let Ok(kind) = fs::metadata(&stderr).map(|data| data.file_type()) else { return };
    if is_quiet || kind.is_file() && !appends(&cargo) {
        return;
    }
    // On a terminal, the line replaces cargo's progress bar, which cargo draws again below it.
    let clear = if kind.is_char_device() { "\r\u{1b}[K" } else { "" };
    let line = format!("{clear}{verb:>12} {text}\n");
    let _: Result<(), _> =
        OpenOptions::new().append(true).open(stderr).and_then(|mut file| file.write_all(line.as_bytes()));
}

/// Whether standard error of the process was opened to append (`O_APPEND`). Otherwise its next line would overwrite a note.
fn appends(process: &str) -> bool {
    let info = fs::read_to_string(format!("{process}/fdinfo/2")).unwrap_or_default();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & O_APPEND != 0)
}
