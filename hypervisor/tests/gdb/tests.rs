//! Tests for all engines.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::{ChildStdout, Command};
use std::thread;
use std::time::Duration;

use crate::guest::{RunningGuest, assert_has, hosts};

/// Run time in seconds of a guest that is killed before its end.
const LONG_RUN: &str = "280";

#[test]
fn guest_stops_at_first_instruction_and_breakpoints() {
    for host in hosts() {
        let guest = host.start("hello_world", "1", &["--exit-code", "7"]);
        let text = guest.debug(&[
            "backtrace",
            "break main",
            "continue",
            "stepi",
            "continue",
            "backtrace",
            "next",
            "delete",
            "continue",
        ]);
        assert_has(
            &text,
            &[
                "_start ()",
                "#0 ",
                "_start ()",
                "in main ()",
                "main.rs",
                "#0  main () at",
                "lang_start_internal",
                "[Inferior 1 (process 1) exited with code 07]",
            ],
        );
        let (stdout, _, status) = guest.end();
        assert_eq!(status.code(), Some(7));
        assert!(stdout.starts_with("Hello, world!\n"), "{stdout}");
    }
}

#[test]
fn registers_and_memory_are_read_and_written() {
    for host in hosts() {
        let guest = host.start("hello_world", "1", &[]);
        let text = guest.debug(&[
            "break main",
            "continue",
            "print $old = $rbx",
            "set $rbx = 0x123456789abcdef0",
            "print/x $rbx",
            "set $rbx = $old",
            "print $fs_base != 0 && $gs_base != 0",
            "set $cs = 0x1b",
            "set var *(unsigned long *)($sp - 0x200) = 0x55aa",
            "print/x *(unsigned long *)($sp - 0x200)",
            "print $code = *(unsigned char *)$pc",
            "set var *(unsigned char *)$pc = 0x90",
            "print/x *(unsigned char *)$pc",
            "set var *(unsigned char *)$pc = $code",
            "x/x 0x10",
            "x/x 0xfffffffffffffff8",
            "delete",
            "continue",
        ]);
        let parts = [
            "= 0x123456789abcdef0",
            "= 1\n",
            "= 0x55aa",
            "= 0x90",
            "exited normally",
            "Could not write registers",
            "Cannot access memory at address 0x10",
            "Cannot access memory at address 0xfffffffffffffff8",
        ];
        assert_has(&text, &parts);
        assert_eq!(guest.end().2.code(), Some(0));
    }
}

#[test]
fn fifth_hardware_watchpoint_is_refused() {
    for host in hosts() {
        let guest = host.start("hello_world", "1", &[]);
        let text = guest.debug(&[
            "hbreak main",
            "continue",
            "delete",
            "watch *(long *)0x1000",
            "rwatch *(long *)0x2000",
            "awatch *(long *)0x3000",
            "watch *(char *)0x4001",
            "stepi",
            "watch *(char *)0x5001",
            "stepi",
            "delete",
            "continue",
        ]);
        let parts = ["Breakpoint 1", "main ()", "exited normally", "Could not insert hardware watchpoint 6"];
        assert_has(&text, &parts);
        assert_eq!(guest.end().2.code(), Some(0));
    }
}

#[test]
fn guest_handles_its_own_breakpoints() {
    for host in hosts() {
        let guest = host.start("hello_world", "1", &[]);
        // Writes two bytes, because uhyve takes a write of the single byte `int3` for a breakpoint of gdb.
        let text =
            guest.debug(&["break main", "continue", "delete", "set var *(short *)$pc = 0x90cc", "continue"]);
        assert_has(&text, &["main ()", "exited with code 0205"]);
        let (_, stderr, status) = guest.end();
        assert_eq!(status.code(), Some(133));
        assert!(stderr.contains("reached a breakpoint"), "{stderr}");
    }
}

#[test]
fn every_vcpu_is_a_thread_and_ctrl_c_stops_all() {
    for host in hosts() {
        let guest = host.start("threads", "2", &["stress", "--seconds", LONG_RUN]);
        let mut gdb = guest.gdb(&[
            "info threads",
            "break main",
            "continue",
            "delete",
            "echo going\\n",
            "continue",
            "info threads",
            "thread apply all stepi",
            "print/x $gs_base",
            "thread 2",
            "print/x $gs_base",
            "kill",
        ]);
        let mut stdout: BufReader<ChildStdout> = BufReader::new(gdb.stdout.take().unwrap());
        let mut text = String::new();
        while !text.ends_with("going\n") {
            assert_ne!(stdout.read_line(&mut text).unwrap(), 0, "gdb has closed its output: {text}");
        }
        // Time for the guest to start its threads.
        thread::sleep(Duration::from_secs(2));
        let interrupt = Command::new("kill").args(["-INT", &gdb.id().to_string()]).status();
        assert!(interrupt.unwrap().success());
        stdout.read_to_string(&mut text).unwrap();
        gdb.wait().unwrap();
        println!("{text}");
        let parts = [
            "* 1    Thread 1.1 (CPU 0) ",
            "_start ()",
            "2    Thread 1.2 (CPU 1) ",
            "Breakpoint 1",
            "main ()",
            "received signal SIGINT",
            "Thread 1.1 (CPU 0) ",
            "Thread 1.2 (CPU 1) ",
            "[Inferior 1 (process 1) killed]",
        ];
        assert_has(&text, &parts);
        let bases: Vec<&str> = text.lines().filter(|line| line.starts_with('$')).collect();
        let [first, second] = bases[..] else { panic!("{bases:?}") };
        assert_ne!(first.split_once(" = "), second.split_once(" = "), "both are registers of one vCPU");
        assert_eq!(guest.end().2.code(), Some(143));
    }
}

#[test]
fn guest_continues_after_gdb_disconnects() {
    for host in hosts() {
        for command in ["detach", "disconnect"] {
            let guest = host.start("hello_world", "1", &[]);
            let text = guest.debug(&["break main", "hbreak *$pc", "continue", "stepi", command]);
            assert_has(&text, &["main ()"]);
            let (stdout, _, status) = guest.end();
            assert_eq!(status.code(), Some(0), "{command}");
            assert!(stdout.starts_with("Hello, world!\n"), "{stdout}");
        }
    }
}

#[test]
fn second_gdb_can_connect_after_detach() {
    for host in hosts() {
        let guest = host.start("threads", "2", &["stress", "--seconds", LONG_RUN]);
        assert_has(&guest.debug(&["break main", "continue", "detach"]), &["main ()", "detached"]);
        assert_has(&guest.debug(&["info threads", "kill"]), &["CPU 0", "CPU 1", "killed"]);
        assert_eq!(guest.end().2.code(), Some(143));
    }
}

/// Invalid packets.
const INVALID_PACKETS: [&[u8]; 24] = [
    b"?",
    b"vCont;s:p1.7",
    b"vCont;c:p1.9",
    b"vCont;s",
    b"vCont;r0,0:p1.1",
    b"vCont;c:p1.1;s:p1.1;s:p1.2",
    b"mffffffffffffffff,ffff",
    b"mfffffffffffff000,1000",
    b"m1000,ffffffffffffffff",
    b"m0,ffffffffffffffff",
    b"Mffffffffffffffff,2:0000",
    b"M1000,1:",
    b"Z0,ffffffffffffffff,1",
    b"z0,1000,1",
    b"Z1,fffffffffffffffe,0",
    b"Z2,fffffffffffffffc,8",
    b"Z2,0,ffffffffffffffff",
    b"Z4,0,0",
    b"G00",
    b"Hgp1.99",
    b"qThreadExtraInfo,p1.ffffffff",
    b"qXfer:features:read:target.xml:ffffffffffffffff,ffffffffffffffff",
    b"Tp1.0",
    b"GET / HTTP/1.1",
];

/// Connects, sends a packet, requests the registers, interrupts the guest, and disconnects.
fn send_packet(guest: &RunningGuest, packet: &[u8]) {
    let mut stream = TcpStream::connect(("127.0.0.1", guest.port().parse::<u16>().unwrap())).unwrap();
    let sum = packet.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
    let framed = [b"$", packet, format!("#{sum:02x}").as_bytes()].concat();
    stream.write_all(&[framed, b"$g#67\x03".to_vec()].concat()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    // Closing a socket with unread bytes resets the connection: the read may fail.
    let _: std::io::Result<usize> = stream.read_to_end(&mut answer);
}

/// Asserts that a gdb can still debug the guest, and kills it.
fn check_alive(guest: RunningGuest) {
    assert_has(&guest.debug(&["info threads", "kill"]), &["CPU 0", "CPU 1", "killed"]);
    let (_, stderr, status) = guest.end();
    assert_eq!(status.code(), Some(143));
    assert!(!stderr.contains("panicked"), "{stderr}");
}

#[test]
fn invalid_packets_do_not_end_the_guest() {
    for host in hosts() {
        let guest = host.start("threads", "2", &["stress", "--seconds", LONG_RUN]);
        for packet in INVALID_PACKETS.iter().chain(&[&b"g"[..]]) {
            send_packet(&guest, packet);
        }
        check_alive(guest);
    }
}

/// Regression test: if a step completed while the vCPU was interrupted, its trap was delivered to the guest,
/// which killed the guest.
#[test]
fn interrupted_step_does_not_kill_the_guest() {
    for host in hosts() {
        let guest = host.start("threads", "2", &["stress", "--seconds", LONG_RUN]);
        for _ in 0..75 {
            send_packet(&guest, b"vCont;c:p1.1;s:p1.1;s:p1.2");
        }
        check_alive(guest);
    }
}
