//! What gdb can do with a guest that is a process, and not with every other one: KVM that merely emulates has no watchpoints and
//! no floating point.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use crate::guest::{Host, assert_has, hosts};

fn process() -> Option<&'static Host> {
    hosts().iter().find(|host| host.engine == "process")
}

#[test]
fn watchpoints_come_true() {
    let Some(host) = process() else { return };
    let guest = host.start("hello_world", "1", &[]);
    let text = guest.debug(&[
        "break main",
        "continue",
        "delete",
        "watch -location *(long *)($sp - 64)",
        "continue",
        "continue",
        "delete",
        "rwatch -location *(long *)$sp",
        "continue",
        "delete",
        "continue",
    ]);
    let changed = ["Hardware watchpoint 2", "Old value", "New value"];
    assert_has(
        &text,
        &[&changed[..], &changed, &["Hardware read watchpoint 3", "Value = ", "exited"]].concat(),
    );
    assert_eq!(guest.end().2.code(), Some(0));
}

#[test]
fn what_cannot_be_watched_is_refused_at_once() {
    let Some(host) = process() else { return };
    let guest = host.start("hello_world", "1", &[]);
    // The host has its own memory there.
    let text =
        guest.debug(&["watch *(long *)0xffffffff81000000", "stepi", "delete", "hbreak main", "continue"]);
    assert_has(&text, &["Could not insert hardware watchpoint 1"]);
    assert_has(&text, &["Breakpoint 2"]);
    assert_eq!(guest.end().2.code(), Some(0));
}

#[test]
fn floating_point_is_read_and_written() {
    let Some(host) = process() else { return };
    let guest = host.start("hello_world", "1", &[]);
    let text = guest.debug(&[
        "break main",
        "continue",
        "print/x $mxcsr",
        "print/x $fctrl",
        "set $xmm15.v2_int64[1] = 0x1234567",
        "set $st3 = 1.5",
        "set $mxcsr = 0x1fa0",
        "stepi",
        "print/x $xmm15.v2_int64",
        "print $st3",
        "print/x $mxcsr",
        "set $mxcsr = 0xffffffff",
        "print/x $mxcsr",
        "kill",
    ]);
    let parts = ["= 0x1f80", "= 0x37f", "= {0x0, 0x1234567}", "= 1.5", "= 0x1fa0", "= 0x1fa0"];
    assert_has(&text, &parts);
    assert!(text.contains("Could not write registers"), "{text}");
    assert_eq!(guest.end().2.code(), Some(143));
}

/// Steps meet system calls, which are answered, and interrupts, which wait.
#[test]
fn a_guest_that_was_stepped_goes_on_as_ever() {
    let Some(host) = process() else { return };
    let guest = host.start("threads", "2", &["stress", "--seconds", "1"]);
    let text = guest.debug(&["stepi 1000", "break main", "continue", "delete", "stepi 3000", "continue"]);
    assert_has(&text, &["main ()", "exited normally"]);
    let (stdout, _, status) = guest.end();
    assert_eq!((status.code(), &*stdout), (Some(0), "ok\n"));
}

/// Whether gdb may attach to processes that are not its own.
fn may_attach() -> bool {
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    let may = scope.is_err()
        || scope.is_ok_and(|scope| scope.trim() == "0")
        || rustix::process::geteuid().is_root();
    if !may {
        eprintln!("skipped: the host lets gdb attach to no process");
    }
    may
}

/// What gdb does with a guest that it has attached to, and what it says at the end.
const ATTACHED: [&str; 8] = [
    "mem 0 0 ro",
    "info threads",
    "break wait_unless",
    "continue",
    "backtrace",
    "finish",
    "delete",
    "detach",
];
const DETACHED: &str = "detached]";

#[test]
fn gdb_attaches_to_a_guest_that_runs() {
    let Some(host) = process().filter(|_| may_attach()) else { return };
    // On a busy machine gdb may come when the guest has ended. The next one lives longer.
    for seconds in [3, 12, 30] {
        let life = Duration::from_secs(seconds);
        let start = Instant::now();
        let guest = host.start_alone("threads", "2", &["stress", "--seconds", &seconds.to_string()]);
        // The guest is to start its threads.
        thread::sleep(Duration::from_secs(1));
        let text = guest.attach(&ATTACHED);
        let was_in_time = text.contains(DETACHED) || start.elapsed() < life;
        let (stdout, _, status) = guest.end();
        assert_eq!((status.code(), &*stdout), (Some(0), "ok\n"));
        if was_in_time {
            let parts = ["* 1 ", "uhyve-guest", "  2 ", "hit Breakpoint 1", "wait_unless", "in idle () at"];
            assert_has(&text, &[&parts[..], &[DETACHED]].concat());
            return;
        }
    }
    panic!("gdb never came in time");
}
