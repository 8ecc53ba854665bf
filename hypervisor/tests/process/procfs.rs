//! Resources of a guest's process, as /proc shows them.

use std::collections::BTreeMap;
use std::fs;

use hermit_interface::machine::TEXT_PORT;
use hermit_interface::process::queue_eventfd;
use iced_x86::code_asm::{rax, rbx};
use rustix::process::Pid;

use crate::access;
use crate::guest::{GuestBuilder, Operand};
use crate::shutdown::{start, start_spinning};

/// Returns the value of a field of a status file.
fn field<'a>(status: &'a str, name: &str) -> &'a str {
    status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap().trim()
}

#[test]
fn guest_has_only_memory_program_and_queue_events() {
    for options in [&["--cpus", "3"][..], &["--cpus", "3", "--no-sandbox"]] {
        let (mut uhyve, guest) = start_spinning(options);
        let folder = format!("/proc/{}", guest.as_raw_pid());
        check_threads(&folder, options);
        check_mappings(&folder);
        check_descriptors(&folder);
        assert_eq!(fs::read(format!("{folder}/environ")).unwrap(), b"");
        assert_eq!(fs::read_to_string(format!("{folder}/comm")).unwrap(), "uhyve-guest\n");
        uhyve.kill().unwrap();
        uhyve.wait().unwrap();
    }
}

/// Neither memory nor descriptors of uhyve and its guest are accessible to a process of the same user that
/// has no capabilities.
#[test]
fn other_processes_of_the_user_have_no_access() {
    let (mut uhyve, guest) = start_spinning(&[]);
    access::is_denied(guest.as_raw_pid());
    access::is_denied(Pid::from_child(&uhyve).as_raw_pid());
    uhyve.kill().unwrap();
    uhyve.wait().unwrap();
}

/// Returns the value of a field that older kernels do not have in a status file.
fn optional_field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// Returns the states of both speculation controls in a status file.
fn speculation(status: &str) -> [Option<&str>; 2] {
    ["Speculation_Store_Bypass", "SpeculationIndirectBranch"].map(|name| optional_field(status, name))
}

/// Returns the expected states of a process that has disabled the controls `is_disabled`. `own` are the
/// states of the test's own process.
fn restricted(own: [Option<&str>; 2], is_disabled: [bool; 2]) -> [Option<&str>; 2] {
    [0, 1].map(|control| match own[control] {
        Some("thread vulnerable") if is_disabled[control] => Some("thread force mitigated"),
        Some("conditional enabled") if is_disabled[control] => Some("conditional force disabled"),
        state => state,
    })
}

/// If the host permits it, uhyve and the guest's process permanently disable the kinds of speculation that
/// `--mitigations` demands.
#[test]
fn mitigations_disable_speculation_of_guest_and_uhyve() {
    let own = fs::read_to_string("/proc/self/status").unwrap();
    let own = speculation(&own);
    for (options, guests, uhyves) in [
        (&[][..], [false, true], [false; 2]),
        (&["--mitigations", "strict"], [true; 2], [true; 2]),
        (&["--mitigations", "strict", "--no-sandbox"], [true; 2], [false; 2]),
    ] {
        let (mut uhyve, guest) = start_spinning(options);
        for (process, is_disabled) in [(guest, guests), (Pid::from_child(&uhyve), uhyves)] {
            let status = fs::read_to_string(format!("/proc/{}/status", process.as_raw_pid())).unwrap();
            assert_eq!(speculation(&status), restricted(own, is_disabled), "{options:?}");
        }
        uhyve.kill().unwrap();
        uhyve.wait().unwrap();
    }
}

/// The guest maps one page in every 2 MiB of its permitted address range, and each page takes a page table of
/// the host.
#[test]
fn page_tables_of_a_hostile_guest_are_bounded() {
    let image = GuestBuilder::image(0, |guest| {
        let mut again = guest.code.create_label();
        guest.set(rbx, Operand::Own(0))?;
        guest.code.set_label(&mut again)?;
        let (access, flags) = (libc::PROT_READ, libc::MAP_SHARED | libc::MAP_FIXED | libc::MAP_POPULATE);
        let page = [Operand::Register(rbx), 0x1000.into(), access.into(), flags.into(), 0.into(), 0.into()];
        guest.call(libc::SYS_mmap, page)?;
        guest.code.add(rbx, 2 << 20)?;
        guest.set(rax, Operand::OwnEnd)?;
        guest.code.cmp(rbx, rax)?;
        guest.code.jb(again)?;
        guest.out(TEXT_PORT, u64::from(b'!').into(), 1)?;
        guest.spin()
    });
    let (mut uhyve, guest) = start(&image, &[]);
    let status = fs::read_to_string(format!("/proc/{}/status", guest.as_raw_pid())).unwrap();
    let tables_kib: u64 = field(&status, "VmPTE").trim_end_matches(" kB").parse().unwrap();
    // The formula of docs/sandbox.md for 16 MiB: 1/512 of the addresses, and tables of higher levels. The
    // kernel's address range is a little smaller, because memory that is in use before the kernel runs does
    // not count.
    let (memory, own) = (16 << 10, 96 * (16 << 10) + (1 << 20));
    let bound_kib = (own + 3 * memory) / 512 + 128;
    assert!((own / 600..bound_kib).contains(&tables_kib), "{tables_kib} KiB, expected {bound_kib}");
    uhyve.kill().unwrap();
    uhyve.wait().unwrap();
}

fn check_threads(folder: &str, options: &[&str]) {
    let tasks: Vec<_> = fs::read_dir(format!("{folder}/task")).unwrap().collect();
    assert_eq!(tasks.len(), 3);
    for task in tasks {
        let status = fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        assert_eq!((field(&status, "Seccomp"), field(&status, "NoNewPrivs")), ("2", "1"));
        // All signals except the exceptions, SIGTSTP, SIGKILL and SIGSTOP.
        assert_eq!(field(&status, "SigBlk"), "fffffffffff3fa27");
        if !options.contains(&"--no-sandbox") {
            for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
                assert_eq!(field(&status, set), "0000000000000000", "{set}");
            }
        }
    }
    let limits = fs::read_to_string(format!("{folder}/limits")).unwrap();
    let cores = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(cores.split_whitespace().collect::<Vec<_>>()[4..6], ["1", "1"]);
}

/// Asserts that only memory and program are mapped, and nothing writable and executable.
fn check_mappings(folder: &str) {
    let maps = fs::read_to_string(format!("{folder}/maps")).unwrap();
    let mut programs = 0;
    for line in maps.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        let (rights, name) = (words[1], words[5..].join(" "));
        match &*name {
            "/memfd:uhyve-memory (deleted)" => {
                assert!(["rw-s", "r--s", "r-xs", "---s"].contains(&rights), "{line}");
            }
            "/memfd:uhyve-guest (deleted)" => {
                assert!(line.starts_with("00400000-") && rights == "r-xp", "{line}");
                programs += 1;
            }
            // On hosts with a vsyscall page, every process has it.
            "[vsyscall]" => assert!(rights.starts_with("--x") || rights.starts_with("r-x"), "{line}"),
            _ => panic!("{line}"),
        }
    }
    assert_eq!(programs, 1);
}

fn check_descriptors(folder: &str) {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(format!("{folder}/fd")).unwrap() {
        let path = entry.unwrap().path();
        let number: u32 = path.file_name().unwrap().to_str().unwrap().parse().unwrap();
        found.insert(number, fs::read_link(path).unwrap().into_os_string().into_string().unwrap());
    }
    let event = "anon_inode:[eventfd]";
    let memory = "/memfd:uhyve-memory (deleted)";
    // The consoles have two queues each, the entropy device one.
    let expected = [
        (0, memory),
        (queue_eventfd(0, 0), event),
        (queue_eventfd(0, 1), event),
        (queue_eventfd(1, 0), event),
        (queue_eventfd(2, 0), event),
        (queue_eventfd(2, 1), event),
    ];
    assert_eq!(found, expected.map(|(number, name)| (number, name.to_owned())).into());
}
