//! What gdb and guests must do together.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::{ChildStdout, Command};
use std::thread;
use std::time::Duration;

use crate::guest::{Guest, assert_has, hosts};

/// For how many seconds a guest works that is killed before.
const LONG: &str = "280";

#[test]
fn a_guest_stops_at_its_first_instruction_and_at_functions() {
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
fn debug_registers_hold_four_addresses() {
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
fn breakpoints_of_the_guest_are_the_guests() {
    for host in hosts() {
        let guest = host.start("hello_world", "1", &[]);
        // Written as data, which gdb's own breakpoints are not.
        let text =
            guest.debug(&["break main", "continue", "delete", "set var *(short *)$pc = 0x90cc", "continue"]);
        assert_has(&text, &["main ()", "exited with code 0205"]);
        let (stdout, _, status) = guest.end();
        assert_eq!(status.code(), Some(133));
        assert!(stdout.contains("reached a breakpoint"), "{stdout}");
    }
}

#[test]
fn every_processor_is_a_thread_and_ctrl_c_stops_them_all() {
    for host in hosts() {
        let guest = host.start("threads", "2", &["stress", "--seconds", LONG]);
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
            assert_ne!(stdout.read_line(&mut text).unwrap(), 0, "it does not go on: {text}");
        }
        // The guest is to start its threads.
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
        assert_ne!(
            first.split_once(" = "),
            second.split_once(" = "),
            "one processor's register was read twice"
        );
        assert_eq!(guest.end().2.code(), Some(143));
    }
}

#[test]
fn a_guest_runs_on_without_gdb() {
    for host in hosts() {
        for farewell in ["detach", "disconnect"] {
            let guest = host.start("hello_world", "1", &[]);
            let text = guest.debug(&["break main", "hbreak *$pc", "continue", "stepi", farewell]);
            assert_has(&text, &["main ()"]);
            let (stdout, _, status) = guest.end();
            assert_eq!(status.code(), Some(0), "{farewell}");
            assert!(stdout.starts_with("Hello, world!\n"), "{stdout}");
        }
    }
}

#[test]
fn another_gdb_may_come() {
    for host in hosts() {
        let guest = host.start("threads", "2", &["stress", "--seconds", LONG]);
        assert_has(&guest.debug(&["break main", "continue", "detach"]), &["main ()", "detached"]);
        assert_has(&guest.debug(&["info threads", "kill"]), &["CPU 0", "CPU 1", "killed"]);
        assert_eq!(guest.end().2.code(), Some(143));
    }
}

/// Packets that no sane gdb sends.
const HOSTILE: [&[u8]; 24] = [
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

/// Connects, sends a packet, asks for registers, interrupts, and is gone.
fn intrude(guest: &Guest, packet: &[u8]) {
    let mut stream = TcpStream::connect(("127.0.0.1", guest.port().parse::<u16>().unwrap())).unwrap();
    let sum = packet.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
    let framed = [b"$", packet, format!("#{sum:02x}").as_bytes()].concat();
    stream.write_all(&[framed, b"$g#67\x03".to_vec()].concat()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    // An answer may be cut off by bytes that were not read.
    let _: std::io::Result<usize> = stream.read_to_end(&mut answer);
}

/// Checks that the guest is alive and well, and ends it.
fn check_alive(guest: Guest) {
    assert_has(&guest.debug(&["info threads", "kill"]), &["CPU 0", "CPU 1", "killed"]);
    let (_, stderr, status) = guest.end();
    assert_eq!(status.code(), Some(143));
    assert!(!stderr.contains("panicked"), "{stderr}");
}

#[test]
fn hostile_packets_end_the_session_at_most() {
    for host in hosts() {
        let guest = host.start("threads", "2", &["stress", "--seconds", LONG]);
        for packet in HOSTILE.iter().chain(&[&b"g"[..]]) {
            intrude(&guest, packet);
        }
        check_alive(guest);
    }
}

/// A step that ends as somebody stops the processor: the trap was left to the guest, which died of it.
#[test]
fn a_step_that_is_interrupted_does_not_end_the_guest() {
    for host in hosts() {
        let guest = host.start("threads", "2", &["stress", "--seconds", LONG]);
        for _ in 0..75 {
            intrude(&guest, b"vCont;c:p1.1;s:p1.1;s:p1.2");
        }
        check_alive(guest);
    }
}
