//! Small writes to a file that the program does not close.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;
use std::thread;
use std::time::Duration;

/// Interval of checks if the other program has seen the written data.
const INTERVAL: Duration = Duration::from_millis(5);

/// Number of lines.
const LINES: u32 = 1000;

/// Way in which the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It calls `exit`.
    Exit,
    /// It aborts.
    Abort,
    /// It waits until another program has seen all lines and creates the name `done`.
    Wait,
}

/// Writes lines to `log`, one after the other, and ends with the file open.
pub(crate) fn run(folder: &Path, end: End) -> io::Result<()> {
    let mut file = File::create(folder.join("log"))?;
    for line in 0..LINES {
        writeln!(file, "line {line}")?;
    }
    match end {
        End::Exit => std::process::exit(0),
        End::Abort => std::process::abort(),
        End::Wait => {
            println!("ready");
            while !fs::exists(folder.join("done"))? {
                thread::sleep(INTERVAL);
            }
            Ok(())
        }
    }
}
