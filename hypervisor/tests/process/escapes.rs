//! Denied system calls: none is executed, and the guest is killed.

use std::fs;
use std::process::{Command, Stdio, id};

use hermit_interface::process::{INTERRUPT, queue_eventfd};
use iced_x86::code_asm::{eax, r15, rax, rbx};
use linux_raw_sys::ptrace::PTRACE_ATTACH;

use crate::guest::{Assembled, FREE, GuestBuilder, Operand};
use crate::host::{Outcome, run};

/// Exit status of uhyve for a killed guest, and of the guest if it is not killed.
const KILLED: i32 = 159;
const NOT_KILLED: u8 = 1;

/// Start of uhyve's message about a killed guest.
const DENIED: &str =
    "uhyve: error: the guest was killed by the sandbox: it made a system call that it may not make";

/// Unused address of the range for mappings.
const ADDRESS: Operand = Operand::Own(0);
/// Size of the guests' memory in bytes.
const MEMORY: i32 = 16 << 20;
const READ_WRITE: i32 = libc::PROT_READ | libc::PROT_WRITE;
const EVERYTHING: i32 = READ_WRITE | libc::PROT_EXEC;
const MAP: i32 = libc::MAP_SHARED | libc::MAP_FIXED;

fn run_guest(write: impl FnOnce(&mut GuestBuilder) -> Assembled) -> Outcome {
    run(&GuestBuilder::image(NOT_KILLED, write), &[])
}

/// Asserts that a guest that makes this system call is killed. `name` is for messages.
#[track_caller]
fn denied<const N: usize>(name: &str, number: i64, arguments: [Operand; N]) {
    let outcome = run_guest(|guest| {
        guest.put(FREE, b"/proc/self/maps\0")?;
        guest.call(number, arguments)
    });
    assert!(outcome.errors.starts_with(DENIED), "{name}: {outcome:?}");
    assert_eq!(outcome.code, Some(KILLED), "{name}");
}

fn path() -> Operand {
    Operand::Physical(FREE)
}

#[test]
fn file_calls_are_denied() {
    let here = libc::AT_FDCWD.into();
    denied("open", libc::SYS_open, [path()]);
    denied("openat", libc::SYS_openat, [here, path()]);
    denied("openat2", libc::SYS_openat2, [here, path()]);
    denied("unlink", libc::SYS_unlink, [path()]);
    denied("newfstatat", libc::SYS_newfstatat, [here, path()]);
    denied("memfd_create", libc::SYS_memfd_create, [path()]);
    denied("dup", libc::SYS_dup, [0.into()]);
    denied("ftruncate", libc::SYS_ftruncate, [0.into(), 0.into()]);
    denied("fcntl", libc::SYS_fcntl, [0.into(), libc::F_GETFL.into()]);
    denied("ioctl", libc::SYS_ioctl, [0.into()]);
    denied("read", libc::SYS_read, [0.into(), path(), 8.into()]);
    denied("io_uring_setup", libc::SYS_io_uring_setup, [8.into(), path()]);
}

#[test]
fn denied_open_creates_no_file() {
    let name = format!("/tmp/uhyve-escape-{}", id());
    let outcome = run_guest(|guest| {
        guest.put(FREE, name.as_bytes())?;
        guest.call(libc::SYS_open, [path(), (libc::O_CREAT | libc::O_WRONLY).into(), 0o600.into()])
    });
    assert_eq!(outcome.code, Some(KILLED));
    assert!(!fs::exists(name).unwrap());
}

#[test]
fn writes_other_than_queue_notifications_are_denied() {
    for (descriptor, size) in
        [(0, 8), (queue_eventfd(0, 0), 4), (queue_eventfd(0, 0), 16), (129, 8), (130, 8), (u32::MAX, 8)]
    {
        let arguments = [u64::from(descriptor).into(), path(), size.into()];
        denied("write", libc::SYS_write, arguments);
    }
    // The control socket is closed.
    denied("sendmsg", libc::SYS_sendmsg, [129.into(), path(), 0.into()]);
    denied("writev", libc::SYS_writev, [1.into(), path(), 1.into()]);
}

#[test]
fn exec_fork_and_clone_are_denied() {
    denied("execve", libc::SYS_execve, [path(), 0.into(), 0.into()]);
    denied("execveat", libc::SYS_execveat, [0.into(), path()]);
    denied("fork", libc::SYS_fork, []);
    denied("vfork", libc::SYS_vfork, []);
    denied("clone", libc::SYS_clone, [(libc::CLONE_VM | libc::CLONE_THREAD | libc::CLONE_SIGHAND).into()]);
    denied("clone3", libc::SYS_clone3, [path(), 88.into()]);
}

#[test]
fn socket_calls_are_denied() {
    denied("socket", libc::SYS_socket, [libc::AF_INET.into(), libc::SOCK_STREAM.into()]);
    denied("socketpair", libc::SYS_socketpair, [libc::AF_UNIX.into(), 1.into(), 0.into(), path()]);
    denied("connect", libc::SYS_connect, [1.into(), path(), 16.into()]);
}

#[test]
fn calls_on_other_processes_are_denied() {
    let mut other = Command::new("sleep").arg("60").stdout(Stdio::null()).spawn().unwrap();
    let process = u64::from(other.id()).into();
    let kill = libc::SIGKILL.into();
    denied("kill", libc::SYS_kill, [process, kill]);
    denied("kill", libc::SYS_kill, [(-1).into(), kill]);
    denied("tgkill", libc::SYS_tgkill, [process, process, kill]);
    denied("tgkill", libc::SYS_tgkill, [process, process, u64::from(INTERRUPT).into()]);
    denied("tkill", libc::SYS_tkill, [process, kill]);
    denied("rt_sigqueueinfo", libc::SYS_rt_sigqueueinfo, [process, kill, path()]);
    denied("pidfd_open", libc::SYS_pidfd_open, [process]);
    denied("ptrace", libc::SYS_ptrace, [u64::from(PTRACE_ATTACH).into(), process]);
    denied("process_vm_writev", libc::SYS_process_vm_writev, [process]);
    assert_eq!(other.try_wait().unwrap(), None, "the process still runs");
    other.kill().unwrap();
    other.wait().unwrap();
}

#[test]
fn tgkill_with_other_signals_is_denied() {
    let outcome = run_guest(|guest| {
        guest.code.mov(eax, iced_x86::code_asm::dword_ptr(r15 + 16))?;
        guest.code.mov(rbx, rax)?;
        let own = Operand::Register(rbx);
        guest.call(libc::SYS_tgkill, [own, own, libc::SIGUSR2.into()])
    });
    assert!(outcome.errors.starts_with(DENIED), "{outcome:?}");
}

#[test]
fn mappings_outside_the_contract_are_denied() {
    let map = |address: Operand, access: i32, flags: i32, descriptor: i32| {
        let arguments = [address, 0x1000.into(), access.into(), flags.into(), descriptor.into(), 0.into()];
        denied("mmap", libc::SYS_mmap, arguments);
    };
    map(ADDRESS, READ_WRITE, MAP | libc::MAP_ANONYMOUS, -1);
    map(ADDRESS, READ_WRITE, libc::MAP_PRIVATE | libc::MAP_FIXED, 0);
    map(ADDRESS, READ_WRITE, libc::MAP_SHARED, 0);
    map(ADDRESS, READ_WRITE, MAP, 1);
    map(ADDRESS, EVERYTHING, MAP, 0);
    map(ADDRESS, libc::PROT_WRITE | libc::PROT_EXEC, MAP, 0);
    map(ADDRESS, libc::PROT_WRITE, MAP, 0);
    for outside in [0_u64, 0x1000, 0x40_0000, (1 << 39) - 0x1000, 255 << 39, !0xfff] {
        map(outside.into(), READ_WRITE, MAP, 0);
        denied("munmap", libc::SYS_munmap, [outside.into(), 0x1000.into()]);
        denied("mprotect", libc::SYS_mprotect, [outside.into(), 0x1000.into(), 1.into()]);
    }
    // Just outside the address range for own mappings, and just outside the direct map of 16 MiB.
    for outside in
        [Operand::Own(-0x1000), Operand::OwnEnd, Operand::Physical(-0x1000), Operand::Physical(MEMORY)]
    {
        map(outside, READ_WRITE, MAP, 0);
    }
    let larger = (MEMORY + 0x1000).into();
    denied("mmap", libc::SYS_mmap, [ADDRESS, larger, 1.into(), MAP.into(), 0.into(), 0.into()]);
    denied("mprotect", libc::SYS_mprotect, [ADDRESS, 0x1000.into(), EVERYTHING.into()]);
    denied("mremap", libc::SYS_mremap, [ADDRESS, 0x1000.into(), 0x2000.into(), 1.into()]);
    denied("brk", libc::SYS_brk, [0.into()]);
    denied("madvise", libc::SYS_madvise, [ADDRESS, 0x1000.into(), libc::MADV_REMOVE.into()]);
    denied("userfaultfd", libc::SYS_userfaultfd, []);
}

/// Each such mapping would take 8 KiB of page tables on the host.
#[test]
fn one_page_in_each_gib_of_addresses_cannot_be_mapped() {
    let outcome = run_guest(|guest| {
        let mut again = guest.code.create_label();
        guest.set(rbx, ADDRESS)?;
        guest.code.set_label(&mut again)?;
        let flags = (MAP | libc::MAP_POPULATE).into();
        let page = [Operand::Register(rbx), 0x1000.into(), READ_WRITE.into(), flags, 0.into(), 0.into()];
        guest.call(libc::SYS_mmap, page)?;
        guest.code.add(rbx, 1 << 30)?;
        guest.code.test(rax, rax)?;
        guest.code.jns(again)
    });
    assert!(outcome.errors.starts_with(DENIED), "{outcome:?}");
    assert_eq!(outcome.code, Some(KILLED));
}

#[test]
fn changes_to_the_sandbox_are_denied() {
    denied("seccomp", libc::SYS_seccomp, [1.into(), 0.into(), path()]);
    denied("prctl", libc::SYS_prctl, [libc::PR_SET_PDEATHSIG.into(), 0.into()]);
    denied("arch_prctl", libc::SYS_arch_prctl, [0x1002.into(), path()]);
    denied("prlimit64", libc::SYS_prlimit64, [0.into(), 4.into(), path()]);
    denied("bpf", libc::SYS_bpf, [0.into(), path(), 64.into()]);
    denied("timer_create", libc::SYS_timer_create, [1.into(), path(), path()]);
    denied("futex", libc::SYS_futex, [path(), libc::FUTEX_LOCK_PI.into()]);
    denied("close", libc::SYS_close, [0.into()]);
}

#[test]
fn exit_calls_are_denied() {
    denied("exit_group", libc::SYS_exit_group, [0.into()]);
    denied("exit", libc::SYS_exit, [0.into()]);
}

#[test]
fn x32_and_unknown_calls_are_denied() {
    for number in [libc::SYS_write, libc::SYS_mmap, libc::SYS_rt_sigreturn] {
        denied("a system call", 0x4000_0000 | number, [1.into(), path(), 8.into()]);
    }
    denied("a system call", 100_000, []);
    denied("a system call", -1, []);
}

#[test]
fn calls_of_another_architecture_kill_the_guest() {
    // i386 numbers of write, mmap and getpid.
    for number in [4_u64, 90, 20] {
        let outcome = run_guest(|guest| {
            guest.code.mov(rax, number)?;
            guest.code.int(0x80)
        });
        assert!(outcome.errors.starts_with(DENIED), "{outcome:?}");
        assert_eq!(outcome.code, Some(KILLED));
    }
}

/// Calls of the vsyscall page are filtered, or the host does not have this page.
#[test]
fn vsyscall_page_does_not_bypass_the_filter() {
    let outcome = run_guest(|guest| {
        guest.code.mov(rax, 0xffff_ffff_ff60_0400_u64)?;
        guest.code.call(rax)
    });
    assert!(matches!(outcome.code, Some(KILLED | 125)), "{outcome:?}");
}
