//! Shutdown: whatever the cause is, no process remains, and uhyve reports the cause.

use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use hermit_interface::machine::{ERROR_TEXT_PORT, TEXT_PORT};
use iced_x86::code_asm::{dword_ptr, eax};
use nix::sys::signal::SigSet;
use rustix::process::{Pid, Signal, kill_process};

use crate::debugger::{self, resume};
use crate::guest::{Assembled, GuestBuilder};
use crate::host::{Host, Outcome, run};
use crate::stalled;
use crate::virtio::{Driver, attacks};

/// Options of a VM that is debugged.
const DEBUGGED: &[&str] = &["--cpus", "3", "--gdb", "0"];

/// Guest that prints a character and then spins.
pub(crate) fn spinning_guest() -> Vec<u8> {
    GuestBuilder::image(0, |guest| {
        guest.out(TEXT_PORT, u64::from(b'!').into(), 1)?;
        guest.spin()
    })
}

/// Starts uhyve with [`spinning_guest`], waits until it spins, and returns uhyve and the guest's process.
pub(crate) fn start_spinning(options: &[&'static str]) -> (Child, Pid) {
    start(&spinning_guest(), options)
}

/// Starts uhyve with a guest, waits until it prints a character, and returns uhyve and the guest's process. A
/// debugger disconnects as soon as the guest runs.
pub(crate) fn start(image: &[u8], options: &[&'static str]) -> (Child, Pid) {
    let (uhyve, guest, _) = start_with_debugger(image, options);
    (uhyve, guest)
}

/// Like [`start`], but also returns the connection of the debugger, if there is one.
fn start_with_debugger(image: &[u8], options: &[&'static str]) -> (Child, Pid, Option<TcpStream>) {
    let host = Host::new(image, options);
    let mut uhyve = host.command().spawn().unwrap();
    let gdb = options.contains(&"--gdb").then(|| resume(&mut uhyve).unwrap());
    let mut said = [0];
    uhyve.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
    let own = uhyve.id();
    let children = fs::read_to_string(format!("/proc/{own}/task/{own}/children")).unwrap();
    (uhyve, Pid::from_raw(children.trim().parse().unwrap()).unwrap(), gdb)
}

/// Waits until a process has exited.
pub(crate) fn wait_for_end(process: Pid) {
    let limit = Instant::now() + Duration::from_secs(150);
    let runs = || {
        let status = fs::read_to_string(format!("/proc/{}/status", process.as_raw_pid()));
        // A zombie counts as exited: not every container has an init process that reaps it.
        status.is_ok_and(|status| !status.contains("State:\tZ"))
    };
    while runs() {
        assert!(Instant::now() < limit, "the guest's process still exists");
        thread::sleep(Duration::from_millis(1));
    }
}

#[track_caller]
fn fails(write: impl FnOnce(&mut GuestBuilder) -> Assembled, message: &str) {
    let outcome = run(&GuestBuilder::image(1, write), &[]);
    assert!(outcome.errors.contains(message), "{outcome:?}");
    assert_eq!(outcome.code, Some(125));
}

#[test]
fn unhandled_fault_ends_the_guest() {
    fails(|guest| guest.code.ud2(), "the guest's process has ended: SIGILL");
    let nowhere = |guest: &mut GuestBuilder| {
        guest.code.xor(eax, eax)?;
        guest.code.mov(dword_ptr(iced_x86::code_asm::rax), eax)
    };
    fails(nowhere, "the guest's process has ended: SIGSEGV");
}

#[test]
fn uhyve_exits_when_its_guest_is_killed() {
    for options in [&["--cpus", "3"][..], DEBUGGED] {
        let (uhyve, guest) = start_spinning(options);
        kill_process(guest, Signal::KILL).unwrap();
        let outcome = Outcome::from(uhyve.wait_with_output().unwrap());
        assert!(outcome.errors.contains("SIGKILL from outside"), "{outcome:?}");
        assert_eq!(outcome.code, Some(125));
    }
}

/// The host reports the end of the boot CPU's thread, the first one, after the ends of the others. So uhyve
/// must check the other threads, although they are paused. A step of the boot CPU ends the stop that would
/// have been reported before its end.
#[test]
fn uhyve_exits_when_its_guest_is_killed_while_gdb_has_paused_it() {
    for packet in [&[][..], debugger::STEP] {
        let (uhyve, guest, gdb) = start_with_debugger(&spinning_guest(), DEBUGGED);
        let mut gdb = gdb.unwrap();
        debugger::pause(&mut gdb);
        kill_process(guest, Signal::KILL).unwrap();
        // Fails if uhyve has exited by now.
        let _: io::Result<()> = gdb.write_all(packet);
        let outcome = Outcome::from(uhyve.wait_with_output().unwrap());
        assert!(outcome.errors.contains("SIGKILL from outside"), "{outcome:?}");
        assert_eq!(outcome.code, Some(125));
    }
}

#[test]
fn guest_ignores_signals_to_the_process_group() {
    let (mut uhyve, guest) = start_spinning(&[]);
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::USR1] {
        kill_process(guest, signal).unwrap();
    }
    thread::sleep(Duration::from_millis(50));
    assert_eq!(uhyve.try_wait().unwrap(), None);
    uhyve.kill().unwrap();
    uhyve.wait().unwrap();
}

#[test]
fn inherited_ignored_sigchld_has_no_effect() {
    let image = GuestBuilder::image(1, |guest| guest.code.ud2());
    let host = Host::new(&image, &[]);
    let uhyve = host.command();
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "trap '' CHLD; exec \"$0\" \"$@\""]).arg(uhyve.get_program()).args(uhyve.get_args());
    let outcome = Outcome::from(shell.output().unwrap());
    assert!(outcome.errors.contains("the guest's process has ended: SIGILL"), "{outcome:?}");
}

#[test]
fn vm_has_at_most_12_disks() {
    let disks = tempfile::TempDir::new().unwrap();
    let image = GuestBuilder::image(1, |guest| guest.code.ud2());
    for count in 0..=13 {
        let host = Host::new(&image, &[]);
        let mut uhyve = host.command();
        // Options may follow the image.
        for number in 0..count {
            let disk = disks.path().join(number.to_string());
            fs::write(&disk, [0; 512]).unwrap();
            uhyve.arg("--block").arg(disk);
        }
        let outcome = Outcome::from(uhyve.output().unwrap());
        let expected = if count <= 12 { "SIGILL" } else { "at most 15 devices" };
        assert!(outcome.errors.contains(expected), "{count}: {outcome:?}");
    }
}

#[test]
fn sigterm_and_sigint_leave_no_process() {
    let cases =
        [(Signal::TERM, 143, &["--cpus", "2"][..]), (Signal::INT, 130, &[]), (Signal::TERM, 143, DEBUGGED)];
    for (signal, code, options) in cases {
        let (mut uhyve, guest) = start_spinning(options);
        kill_process(Pid::from_child(&uhyve), signal).unwrap();
        assert_eq!(uhyve.wait().unwrap().code(), Some(code));
        wait_for_end(guest);
    }
}

/// Returns true if this process ignores a signal (proc(5), `SigIgn`).
fn is_ignored(signal: Signal) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap() & 1 << (signal.as_raw() - 1) != 0
}

/// Regression test: uhyve never noticed the signals.
#[test]
fn signals_that_the_parent_has_blocked_end_the_guest() {
    let cases = [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)];
    // Under nohup(1), uhyve ignores SIGHUP, too.
    for (signal, code) in cases.into_iter().filter(|(signal, _)| !is_ignored(*signal)) {
        let parent = thread::spawn(|| {
            // Only of this thread, and of the process that it starts.
            SigSet::all().thread_block().unwrap();
            start_spinning(&[])
        });
        let (mut uhyve, guest) = parent.join().unwrap();
        kill_process(Pid::from_child(&uhyve), signal).unwrap();
        assert_eq!(uhyve.wait().unwrap().code(), Some(code));
        wait_for_end(guest);
    }
}

#[test]
fn messages_go_to_the_log_file_alone() {
    let folder = tempfile::TempDir::new().unwrap();
    let log = folder.path().join("log");
    let guest = |text: &'static str| {
        GuestBuilder::image(1, move |guest| {
            text.bytes().try_for_each(|byte| guest.out(ERROR_TEXT_PORT, u64::from(byte).into(), 1))?;
            guest.code.ud2()
        })
    };
    for count in 1..=2 {
        let host = Host::new(&guest("uhyve: error: forged\n"), &[]);
        let output = host.command().arg("--log-file").arg(&log).output().unwrap();
        let outcome = Outcome::from(output);
        assert_eq!((outcome.code, &*outcome.errors), (Some(125), "uhyve: error: forged\n"));
        let text = fs::read_to_string(&log).unwrap();
        assert_eq!(text.matches("uhyve: error: the guest's process has ended: SIGILL\n").count(), count);
        assert!(!text.contains("forged"), "{text}");
    }
    let refused = Host::new(&[], &[]).command().arg("--log-file").arg(folder.path()).output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
}

#[test]
fn sigkill_leaves_no_process() {
    for options in [&[][..], &["--no-sandbox"], &["--cpus", "2"], DEBUGGED] {
        let (mut uhyve, guest) = start_spinning(options);
        uhyve.kill().unwrap();
        uhyve.wait().unwrap();
        wait_for_end(guest);
    }
}

#[test]
fn time_limit_ends_the_guest() {
    // The limit is long enough for the debugger with which `run` repeats the test.
    let outcome = run(&spinning_guest(), &["--timeout", "3"]);
    assert_eq!(outcome.code, Some(124));
}

#[test]
fn report_has_the_reason_of_the_end() {
    let folder = tempfile::TempDir::new().unwrap();
    let report = folder.path().join("report.json");
    // The first two end with the same status.
    let exiting = GuestBuilder::image(124, |_| Ok(()));
    let faulting = GuestBuilder::image(1, |guest| guest.code.ud2());
    let denied = GuestBuilder::image(1, |guest| guest.call(libc::SYS_getpid, []));
    for (image, limit, reason, status) in [
        (exiting, "60", "exited", 124),
        (spinning_guest(), "1", "timeout", 124),
        (faulting, "60", "failed", 125),
        (denied, "60", "sandbox", 159),
    ] {
        let host = Host::new(&image, &["--timeout", limit]);
        let output = host.command().arg("--report").arg(&report).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{output:?}");
        let json: serde_json::Value = serde_json::from_slice(&fs::read(&report).unwrap()).unwrap();
        assert_eq!((&json["reason"], &json["status"]), (&reason.into(), &status.into()), "{json}");
        assert!(json["peak_memory_bytes"].as_u64().unwrap() > 0, "{json}");
        assert!(json["exits"]["port_writes"].is_u64(), "{json}");
    }
    let mut missing = Host::new(&[], &[]).command();
    let missing = Outcome::from(missing.args(["--report", "/does/not/exist"]).output().unwrap());
    assert!(missing.code == Some(2) && missing.errors.contains("--report: /does/not/exist"), "{missing:?}");
    let nothing = Host::new(&[], &[]).command().arg("--report").arg(&report).output().unwrap();
    assert_eq!(nothing.status.code(), Some(125));
    assert!(fs::read_to_string(&report).unwrap().contains("\"reason\": \"not started\""));
}

#[test]
fn time_limit_ends_the_guest_even_if_no_one_reads_its_output() {
    let host = Host::new(&spinning_guest(), &["--timeout", "1"]);
    stalled::ends_by_the_time_limit(&mut host.command());
}

/// Number of times that threads of a process have gone to sleep.
fn sleeps(process: u32) -> u64 {
    let of_thread = |task: io::Result<fs::DirEntry>| {
        let status = fs::read_to_string(task.unwrap().path().join("status")).unwrap_or_default();
        let sleeps = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        sleeps.map_or(0, |sleeps| sleeps.trim().parse().unwrap())
    };
    fs::read_dir(format!("/proc/{process}/task")).unwrap().map(of_thread).sum::<u64>()
}

/// The guest has ended, and its output waits for a reader. If uhyve polled every 50 µs, it would sleep
/// thousands of times.
#[test]
fn uhyve_sleeps_while_the_output_of_an_ended_guest_is_blocked() {
    // Prints to the console device, because a CPU that prints to the text port would itself wait.
    let image = GuestBuilder::image(0, |guest| attacks::print(&mut Driver(guest)));
    let host = Host::new(&image, &[]);
    let (mut reader, output) = stalled::full_pipe();
    let mut uhyve = host.command().stdout(output).spawn().unwrap();
    let id = uhyve.id();
    let limit = Instant::now() + Duration::from_secs(150);
    let is_quiet = || {
        let before = sleeps(id);
        thread::sleep(Duration::from_millis(300));
        sleeps(id) - before < 10
    };
    // It starts, and then waits for the reader.
    while !is_quiet() {
        assert!(Instant::now() < limit, "uhyve does not come to rest");
    }
    assert_eq!(uhyve.try_wait().unwrap(), None, "the output is lost");
    // The command, which holds another descriptor of the pipe, has been dropped.
    let mut text = Vec::new();
    reader.read_to_end(&mut text).unwrap();
    // The text follows whole pages, which have filled the pipe.
    assert_eq!((text.len() % 4096, uhyve.wait().unwrap().code()), (16, Some(0)));
}

#[test]
fn refused_system_call_is_reported_with_hint() {
    let host = Host::new(&spinning_guest(), &[]);
    let uhyve = host.command();
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "ulimit -n 100; exec \"$0\" \"$@\""]).arg(uhyve.get_program()).args(uhyve.get_args());
    let outcome = Outcome::from(shell.output().unwrap());
    assert!(
        outcome.errors.contains("the host refuses fcntl") && outcome.errors.contains("ulimit -n"),
        "{outcome:?}"
    );
    assert_eq!(outcome.code, Some(125));
}
