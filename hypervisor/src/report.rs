//! Report of a run (`--report`): a JSON file with the reason why the run ended.
//!
//! When uhyve starts, it writes a complete report with the reason `running` to a temporary file, and renames
//! the file into place. So it never writes through a link, and no reader finds half of a report. When the run
//! ends, uhyve overwrites the text with one write of the same size. It cannot rename a second file, because
//! the sandbox does not leave the folder accessible.
//!
//! A signal handler can make this write, too. So the report also covers a denied system call, or a second
//! signal that ends uhyve at once. If the report still says `running` after uhyve has exited, SIGKILL has
//! killed uhyve, for example because memory was exhausted.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use hermit_options::open::{Opener, Place, beneath};
use rustix::fs::{AtFlags, Mode, OFlags, renameat, unlinkat};
use rustix::io::{Errno, pwrite, write};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::sandbox;
use crate::vcpu::stats::{self, Statistics};

/// Size of the file in bytes. Each text is padded with blanks, which JSON ignores.
const SIZE: usize = 1024;

/// Exit code after the time limit, as with timeout(1).
pub(crate) const TIMED_OUT: u8 = 124;

/// Exit code after abort(3): the code by which a shell reports that SIGABRT has killed a process.
pub(crate) const ABORTED: u8 = 134;

/// Base of the exit codes for signals. The signal's number is added to it, as in a shell.
pub(crate) const SIGNAL_BASE: u8 = 128;

/// How a run has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Reason in the report (docs/running.md).
    pub(crate) reason: &'static str,
    /// uhyve's exit code.
    pub(crate) code: u8,
}

/// Outcomes that a signal handler writes. Their texts are formatted in advance, because a handler must not
/// allocate.
const AT_ONCE: [Outcome; 6] = [
    Outcome { reason: "sandbox", code: sandbox::EXIT_CODE },
    Outcome { reason: "aborted", code: ABORTED },
    Outcome { reason: "timeout", code: TIMED_OUT },
    // SIGHUP, SIGINT and SIGTERM.
    Outcome { reason: "signal", code: SIGNAL_BASE + 1 },
    Outcome { reason: "signal", code: SIGNAL_BASE + 2 },
    Outcome { reason: "signal", code: SIGNAL_BASE + 15 },
];

/// Report of this process.
#[derive(Debug)]
struct Report {
    /// The report's file. Its offset is 0 until the end of the run is written.
    file: OwnedFd,
    /// Texts of [`AT_ONCE`].
    texts: [String; AT_ONCE.len()],
    is_written: AtomicBool,
}

impl Report {
    fn create(opener: &Opener, path: &Path) -> io::Result<Self> {
        let place = opener.place_of_file(path)?;
        let (name, file) = create_temporary(&place)?;
        let running = text("running", None, None);
        let placed = pwrite(&file, running.as_bytes(), 0)
            .and_then(|_| renameat(&place.folder, &name, &place.folder, &place.name));
        if let Err(error) = placed {
            // This fails if the file has been renamed already. Only the first error is reported.
            let _: rustix::io::Result<()> = unlinkat(&place.folder, &name, AtFlags::empty());
            return Err(error.into());
        }
        let texts = AT_ONCE.map(|Outcome { reason, code }| text(reason, Some(code), None));
        Ok(Self { file, texts, is_written: AtomicBool::new(false) })
    }

    /// Writes the end of the run. Later calls have no effect. Async-signal-safe (signal-safety(7)).
    fn write(&self, text: &str) -> rustix::io::Result<()> {
        if self.is_written.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        write(&self.file, text.as_bytes()).map(drop)
    }
}

/// Creates a file with a unique name in the folder of the report. Returns the name and the file.
fn create_temporary(place: &Place) -> rustix::io::Result<(OsString, OwnedFd)> {
    let mut random = [0; 8];
    getrandom(&mut random, GetRandomFlags::empty())?;
    let mut name = OsString::from(".");
    name.push(&place.name);
    name.push(format!(".{:016x}", u64::from_ne_bytes(random)));
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    let file = beneath(&place.folder, name.as_encoded_bytes(), flags, Mode::from_raw_mode(0o666))?;
    Ok((name, file))
}

/// Returns the text of a report, padded to [`SIZE`].
fn text(reason: &str, status: Option<u8>, statistics: Option<&Statistics>) -> String {
    format!("{:width$}\n", stats::json(reason, status, statistics), width = SIZE - 1)
}

/// The report, if there is one.
static REPORT: OnceLock<Report> = OnceLock::new();

/// Creates the report, which says at first that the machine runs.
///
/// # Errors
///
/// The path leads to something other than a file, or through a link that another user may have made; or no
/// file can be created in the folder.
pub fn create(opener: &Opener, path: &Path) -> io::Result<()> {
    let report = Report::create(opener, path)?;
    REPORT.set(report).map_err(|_| Errno::EXIST.into())
}

/// Returns true if there is a report.
pub(crate) fn is_wanted() -> bool {
    REPORT.get().is_some()
}

/// Writes to the report, if there is one, how the run has ended.
///
/// # Errors
///
/// The host's.
pub(crate) fn write_end(outcome: Outcome, statistics: Option<&Statistics>) -> io::Result<()> {
    let Some(report) = REPORT.get() else { return Ok(()) };
    Ok(report.write(&text(outcome.reason, Some(outcome.code), statistics))?)
}

/// Writes the outcome with the exit code `code` to the report, if there is one. For signal handlers:
/// async-signal-safe.
pub(crate) fn write_end_at_once(code: u8) {
    let Some(report) = REPORT.get() else { return };
    let ends = AT_ONCE.iter().zip(&report.texts);
    if let Some((_, text)) = ends.into_iter().find(|(outcome, _)| outcome.code == code) {
        // Errors are ignored: the process exits, and has no other way to report them.
        let _: rustix::io::Result<()> = report.write(text);
    }
}

#[cfg(test)]
mod tests {
    use super::{AT_ONCE, Outcome, Report, SIZE, text};
    use crate::vcpu::stats::Statistics;
    use hermit_options::open::Opener;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    fn reason(path: &Path) -> String {
        let text = fs::read_to_string(path).unwrap();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        json["reason"].as_str().unwrap().to_owned()
    }

    #[test]
    fn report_is_in_place_from_the_start_and_written_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.json");
        fs::write(&path, "of an earlier run").unwrap();
        let report = Report::create(&Opener::default(), &path).unwrap();
        assert_eq!(reason(&path), "running");
        for _ in 0..2 {
            report.write(&report.texts[0]).unwrap();
            report.write(&report.texts[1]).unwrap();
            assert_eq!(reason(&path), "sandbox");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "the temporary file is renamed");
    }

    /// An existing file is replaced, not overwritten, so its other hard links keep the old content.
    #[test]
    fn nothing_is_written_to_an_earlier_file_or_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let [path, other] = ["report.json", "other"].map(|name| folder.path().join(name));
        fs::write(&other, "other").unwrap();
        fs::hard_link(&other, &path).unwrap();
        Report::create(&Opener::default(), &path).unwrap();
        assert_eq!((fs::read_to_string(&other).unwrap().as_str(), &*reason(&path)), ("other", "running"));
        fs::remove_file(&path).unwrap();
        symlink(&other, &path).unwrap();
        // Links in a folder that the guest mounts count as made by another user.
        let opener = Opener::new(&[format!("{}:/data", folder.path().display()).parse().unwrap()]);
        assert!(Report::create(&opener, &path).is_err());
        assert_eq!(fs::read_to_string(&other).unwrap(), "other");
        assert!(Report::create(&Opener::default(), folder.path()).is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "no temporary file is left");
    }

    #[test]
    fn reader_finds_a_complete_report_at_any_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.json");
        let is_done = AtomicBool::new(false);
        let run = || {
            let report = Report::create(&Opener::default(), &path).unwrap();
            report.write(&report.texts[2]).unwrap();
        };
        run();
        thread::scope(|scope| {
            scope.spawn(|| {
                (0..100).for_each(|_| run());
                is_done.store(true, Ordering::Relaxed);
            });
            while !is_done.load(Ordering::Relaxed) {
                assert!(["running", "timeout"].contains(&&*reason(&path)));
            }
        });
    }

    #[test]
    fn all_texts_have_the_same_size() {
        let statistics = Statistics::maximum();
        let mut texts = vec![text("running", None, None), text("grace period", Some(255), Some(&statistics))];
        texts.extend(AT_ONCE.map(|Outcome { reason, code }| text(reason, Some(code), None)));
        assert!(texts.iter().all(|text| text.len() == SIZE), "{texts:?}");
    }
}
