//! Tests only for the process engine, because KVM with software emulation has neither watchpoints nor
//! floating point.

use std::fs;
use std::thread;
use std::time::Duration;

use crate::guest::{Host, assert_has, hosts, missing};

fn process() -> Option<&'static Host> {
    hosts().iter().find(|host| host.engine == "process")
}

#[test]
fn watchpoints_stop_the_guest() {
    let Some(host) = process() else { return };
    let guest = host.start("hello_world", "1", &[]);
    let text = guest.debug(&[
        // The first instruction: the stack pointer is at the return address, which only the return of `main`
        // reads.
        "break *main",
        "continue",
        "set $return = $sp",
        "delete",
        "watch -location *(long *)($sp - 64)",
        "continue",
        "continue",
        "delete",
        "rwatch -location *(long *)$return",
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
fn watchpoint_on_kernel_address_is_refused() {
    let Some(host) = process() else { return };
    let guest = host.start("hello_world", "1", &[]);
    // An address of the host's kernel.
    let text =
        guest.debug(&["watch *(long *)0xffffffff81000000", "stepi", "delete", "hbreak main", "continue"]);
    assert_has(&text, &["Could not insert hardware watchpoint 1"]);
    assert_has(&text, &["Breakpoint 2"]);
    assert_eq!(guest.end().2.code(), Some(0));
}

#[test]
fn fpu_registers_are_read_and_written() {
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

/// The steps execute hypercalls, and hold back interrupts.
#[test]
fn stepped_guest_continues_normally() {
    let Some(host) = process() else { return };
    let guest = host.start("threads", "2", &["stress", "--seconds", "1"]);
    let text = guest.debug(&["stepi 1000", "break main", "continue", "delete", "stepi 3000", "continue"]);
    assert_has(&text, &["main ()", "exited normally"]);
    let (stdout, _, status) = guest.end();
    assert_eq!((status.code(), &*stdout), (Some(0), "ok\n"));
}

/// Returns true if gdb may attach to processes that it has not started.
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

/// Commands for a guest that gdb has attached to, and the output of the last one.
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
fn gdb_attaches_to_running_guest() {
    let Some(host) = process().filter(|_| may_attach()) else { return };
    let parts = ["* 1 ", "uhyve-guest", "  2 ", "hit Breakpoint 1", "wait_unless", "in idle () at", DETACHED];
    let mut text = String::new();
    // On a loaded host, when gdb attaches, the guest may not have started its threads yet, or may have exited
    // already. Then the test repeats with a longer run.
    for seconds in [3, 12, 48, 120] {
        let guest = host.start_alone("threads", "2", &["stress", "--seconds", &seconds.to_string()]);
        // Time for the guest to start its threads.
        thread::sleep(Duration::from_secs(seconds / 3));
        text = guest.attach(&ATTACHED);
        let (stdout, _, status) = guest.end();
        assert_eq!((status.code(), &*stdout), (Some(0), "ok\n"));
        if missing(&text, &parts).is_none() {
            return;
        }
    }
    assert_has(&text, &parts);
}
