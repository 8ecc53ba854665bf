//! Start of uhyve: it opens only regular files, time limits count from the start of the process, and a report
//! is written.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::guest::GuestBuilder;
use crate::host::{Host, Outcome};
use crate::shutdown::{start_spinning, wait_for_end};
use crate::stalled;
use crate::virtio::{Driver, attacks};

/// A guest that exits with this status.
const STATUS: u8 = 7;

/// A folder with a report, which does not exist yet.
fn report_folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.json");
    (folder, report)
}

/// Asserts that the report says how the run has ended.
#[track_caller]
fn check_report(report: &Path, reason: &str, status: Option<i32>) {
    let json: serde_json::Value = serde_json::from_slice(&fs::read(report).unwrap()).unwrap();
    assert_eq!((&json["reason"], &json["status"]), (&reason.into(), &status.into()), "{json}");
}

/// Runs uhyve with an exiting guest and options.
fn run(options: &[&str]) -> Outcome {
    let host = Host::new(&GuestBuilder::image(STATUS, |_| Ok(())), &[]);
    Outcome::from(host.command().args(options).output().unwrap())
}

/// Opening a pipe would wait forever for the other end.
#[test]
fn pipes_in_place_of_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let pipe = pipe.to_str().unwrap();
    for (option, code) in [("--root", 125), ("--env-file", 2), ("--report", 2), ("--block", 125)] {
        let outcome = run(&[option, pipe]);
        assert_eq!(outcome.code, Some(code), "{option}: {outcome:?}");
        assert!(outcome.errors.contains("it is a pipe, not a file"), "{option}: {outcome:?}");
    }
    let mut uhyve = Command::new(env!("CARGO_BIN_EXE_uhyve"));
    let outcome = Outcome::from(uhyve.args(["--engine", "process", pipe]).output().unwrap());
    assert!(outcome.code == Some(125) && outcome.errors.contains("it is a pipe"), "{outcome:?}");
}

/// A guest could place such links in a folder that it mounts, or that belongs to the user of its jail.
#[test]
fn links_that_others_can_make_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (link, target) = (folder.path().join("link"), folder.path().join("target"));
    fs::write(&target, [0; 512]).unwrap();
    symlink(&target, &link).unwrap();
    let link = link.to_str().unwrap();
    let mount = format!("{}:/data", folder.path().display());
    for option in ["--report", "--env-file", "--block", "--root"] {
        fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
        let outcome = run(&[option, link]);
        assert!(outcome.errors.contains("a link in a folder that others can write"), "{outcome:?}");
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let outcome = run(&[option, link, "--mount", &mount]);
        assert!(outcome.errors.contains("a link in a folder that the guest can write"), "{outcome:?}");
        assert_eq!(fs::read(&target).unwrap(), [0; 512], "{option}");
    }
    assert_eq!(run(&["--block", link]).code, Some(STATUS.into()), "a link of this user");
}

/// No process starts within a microsecond.
#[test]
fn time_limit_counts_from_the_start_of_the_process() {
    let (_folder, report) = report_folder();
    let host = Host::new(&GuestBuilder::image(STATUS, |_| Ok(())), &["--timeout", "0.000001"]);
    let outcome = Outcome::from(host.command().arg("--report").arg(&report).output().unwrap());
    assert_eq!(outcome.code, Some(124), "{outcome:?}");
    assert!(outcome.errors.contains("the machine was not loaded within "), "{outcome:?}");
    check_report(&report, "timeout", Some(124));
    let log = report.with_file_name("log");
    let outcome = Outcome::from(host.command().arg("--log-file").arg(&log).output().unwrap());
    assert_eq!((outcome.code, outcome.errors.as_str()), (Some(124), ""), "{outcome:?}");
    assert!(fs::read_to_string(&log).unwrap().contains("the machine was not loaded within "));
    let host = Host::new(&GuestBuilder::image(STATUS, |_| Ok(())), &["--timeout", "1e19"]);
    let outcome = Outcome::from(host.command().output().unwrap());
    assert_eq!(outcome.code, Some(STATUS.into()), "{outcome:?}");
}

#[test]
fn wrong_command_line_has_a_report() {
    let (_folder, report) = report_folder();
    for options in
        [&["--cpus", "0"][..], &["-p", "1:1", "-p", "1:2"], &["--env-file", "/does/not/exist"], &["--mount"]]
    {
        let outcome = run(&[&["--report", report.to_str().unwrap()], options].concat());
        assert_eq!(outcome.code, Some(2), "{outcome:?}");
        check_report(&report, "not started", Some(2));
        fs::remove_file(&report).unwrap();
    }
}

#[test]
fn mounts_that_hide_each_other_are_refused() {
    for mounts in [["/tmp:/a", "/tmp:/a"], ["/tmp:/a", "/tmp:/dev"]] {
        let outcome = run(&["--mount", mounts[0], "--mount", mounts[1]]);
        assert!(outcome.code == Some(2) && outcome.errors.contains("error: --mount: "), "{outcome:?}");
    }
}

#[test]
fn report_of_a_killed_uhyve_says_that_it_runs() {
    let (_folder, report) = report_folder();
    // The options live as long as the test program.
    let option: &'static str = format!("--report={}", report.display()).leak();
    let (mut uhyve, guest) = start_spinning(&[option]);
    check_report(&report, "running", None);
    uhyve.kill().unwrap();
    uhyve.wait().unwrap();
    wait_for_end(guest);
    check_report(&report, "running", None);
}

/// The guest has ended, and its output waits for a reader: a signal ends uhyve at once.
#[test]
fn signal_that_ends_uhyve_at_once_is_in_the_report() {
    let (_folder, report) = report_folder();
    let image = GuestBuilder::image(0, |guest| attacks::print(&mut Driver(guest)));
    let host = Host::new(&image, &[]);
    let (_reader, output) = stalled::full_pipe();
    let mut uhyve = host.command().arg("--report").arg(&report).stdout(output).spawn().unwrap();
    let process = Pid::from_child(&uhyve);
    let has_guest = || {
        let own = process.as_raw_pid();
        let children = fs::read_to_string(format!("/proc/{own}/task/{own}/children"));
        children.is_ok_and(|children| !children.trim().is_empty())
    };
    let limit = Instant::now() + Duration::from_secs(150);
    // The guest's process appears, and goes.
    for is_there in [true, false] {
        while has_guest() != is_there {
            assert!(Instant::now() < limit && uhyve.try_wait().unwrap().is_none());
            thread::sleep(Duration::from_millis(1));
        }
    }
    // Until uhyve has noticed the end of the guest, which takes long on a busy machine, a signal only asks
    // the guest to end.
    let status = loop {
        kill_process(process, Signal::TERM).unwrap();
        if let Some(status) = uhyve.try_wait().unwrap() {
            break status;
        }
        assert!(Instant::now() < limit);
        thread::sleep(Duration::from_millis(10));
    };
    assert_eq!(status.code(), Some(143));
    check_report(&report, "signal", Some(143));
}
