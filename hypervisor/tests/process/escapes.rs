//! Guests that try to leave their sandbox: nothing of it is done, and the guest ends.

use std::fs;
use std::process::{Command, Stdio, id};

use hermit_interface::process::{INTERRUPT, kick};
use iced_x86::code_asm::{eax, r15, rax};

use crate::guest::{Assembled, FREE, Guest, Value};
use crate::host::{Outcome, run};

/// What the sandbox says, and a status that the guest would have if it were not stopped.
const KILLED: i32 = 159;
const FREE_AGAIN: u8 = 1;

const ADDRESS: u64 = 250 << 39;
const READ_WRITE: i32 = libc::PROT_READ | libc::PROT_WRITE;
const EVERYTHING: i32 = READ_WRITE | libc::PROT_EXEC;
const MAP: i32 = libc::MAP_SHARED | libc::MAP_FIXED;

fn try_to(write: impl FnOnce(&mut Guest) -> Assembled) -> Outcome {
    run(&Guest::image(FREE_AGAIN, write), &[])
}

/// A guest that makes this system call is stopped by that name.
#[track_caller]
fn stopped<const N: usize>(name: &str, number: i64, arguments: [Value; N]) {
    let outcome = try_to(|guest| {
        guest.put(FREE, b"/proc/self/maps\0")?;
        guest.call(number, arguments)
    });
    let expected = format!("uhyve: error: the guest was killed by the sandbox: {name} (number {number},");
    assert!(outcome.errors.starts_with(&expected), "{name}: {outcome:?}");
    assert_eq!(outcome.code, Some(KILLED), "{name}");
}

fn path() -> Value {
    Value::Physical(FREE)
}

#[test]
fn files_cannot_be_reached() {
    let here = libc::AT_FDCWD.into();
    stopped("open", libc::SYS_open, [path()]);
    stopped("openat", libc::SYS_openat, [here, path()]);
    stopped("openat2", libc::SYS_openat2, [here, path()]);
    stopped("unlink", libc::SYS_unlink, [path()]);
    stopped("newfstatat", libc::SYS_newfstatat, [here, path()]);
    stopped("memfd_create", libc::SYS_memfd_create, [path()]);
    stopped("dup", libc::SYS_dup, [0.into()]);
    stopped("ftruncate", libc::SYS_ftruncate, [0.into(), 0.into()]);
    stopped("fcntl", libc::SYS_fcntl, [0.into(), libc::F_GETFL.into()]);
    stopped("ioctl", libc::SYS_ioctl, [0.into()]);
    stopped("read", libc::SYS_read, [0.into(), path(), 8.into()]);
    stopped("io_uring_setup", libc::SYS_io_uring_setup, [8.into(), path()]);
}

#[test]
fn a_file_is_not_made() {
    let name = format!("/tmp/uhyve-escape-{}", id());
    let outcome = try_to(|guest| {
        guest.put(FREE, name.as_bytes())?;
        guest.call(libc::SYS_open, [path(), (libc::O_CREAT | libc::O_WRONLY).into(), 0o600.into()])
    });
    assert_eq!(outcome.code, Some(KILLED));
    assert!(!fs::exists(name).unwrap());
}

#[test]
fn only_kicks_are_written_and_only_eight_bytes() {
    for (descriptor, size) in [(0, 8), (kick(0, 0), 4), (kick(0, 0), 16), (129, 8), (130, 8), (u32::MAX, 8)] {
        let arguments = [u64::from(descriptor).into(), path(), size.into()];
        stopped("write", libc::SYS_write, arguments);
    }
    // A message by the socket that is closed.
    stopped("sendmsg", libc::SYS_sendmsg, [129.into(), path(), 0.into()]);
    stopped("writev", libc::SYS_writev, [1.into(), path(), 1.into()]);
}

#[test]
fn programs_and_processes_cannot_be_started() {
    stopped("execve", libc::SYS_execve, [path(), 0.into(), 0.into()]);
    stopped("execveat", libc::SYS_execveat, [0.into(), path()]);
    stopped("fork", libc::SYS_fork, []);
    stopped("vfork", libc::SYS_vfork, []);
    stopped("clone", libc::SYS_clone, [(libc::CLONE_VM | libc::CLONE_THREAD | libc::CLONE_SIGHAND).into()]);
    stopped("clone3", libc::SYS_clone3, [path(), 88.into()]);
}

#[test]
fn networks_cannot_be_reached() {
    stopped("socket", libc::SYS_socket, [libc::AF_INET.into(), libc::SOCK_STREAM.into()]);
    stopped("socketpair", libc::SYS_socketpair, [libc::AF_UNIX.into(), 1.into(), 0.into(), path()]);
    stopped("connect", libc::SYS_connect, [1.into(), path(), 16.into()]);
}

/// A process that waits, as one that may be harmed.
#[test]
fn other_processes_are_not_reached() {
    let mut other = Command::new("sleep").arg("60").stdout(Stdio::null()).spawn().unwrap();
    let process = u64::from(other.id()).into();
    let kill = libc::SIGKILL.into();
    stopped("kill", libc::SYS_kill, [process, kill]);
    stopped("kill", libc::SYS_kill, [(-1).into(), kill]);
    stopped("tgkill", libc::SYS_tgkill, [process, process, kill]);
    stopped("tgkill", libc::SYS_tgkill, [process, process, u64::from(INTERRUPT).into()]);
    stopped("tkill", libc::SYS_tkill, [process, kill]);
    stopped("rt_sigqueueinfo", libc::SYS_rt_sigqueueinfo, [process, kill, path()]);
    stopped("pidfd_open", libc::SYS_pidfd_open, [process]);
    stopped("ptrace", libc::SYS_ptrace, [libc::PTRACE_ATTACH.cast_signed().into(), process]);
    stopped("process_vm_writev", libc::SYS_process_vm_writev, [process]);
    assert_eq!(other.try_wait().unwrap(), None, "it is unharmed");
    other.kill().unwrap();
    other.wait().unwrap();
}

#[test]
fn a_guest_signals_itself_only_by_interrupts() {
    let outcome = try_to(|guest| {
        guest.code.mov(eax, iced_x86::code_asm::dword_ptr(r15 + 16))?;
        guest.code.mov(iced_x86::code_asm::rbx, rax)?;
        let own = Value::Register(iced_x86::code_asm::rbx);
        guest.call(libc::SYS_tgkill, [own, own, libc::SIGUSR2.into()])
    });
    assert!(outcome.errors.contains("killed by the sandbox: tgkill"), "{outcome:?}");
}

#[test]
fn memory_is_mapped_only_as_the_contract_has_it() {
    let map = |address: u64, access: i32, flags: i32, descriptor: i32| {
        let arguments =
            [address.into(), 0x1000.into(), access.into(), flags.into(), descriptor.into(), 0.into()];
        stopped("mmap", libc::SYS_mmap, arguments);
    };
    map(ADDRESS, READ_WRITE, MAP | libc::MAP_ANONYMOUS, -1);
    map(ADDRESS, READ_WRITE, libc::MAP_PRIVATE | libc::MAP_FIXED, 0);
    map(ADDRESS, READ_WRITE, libc::MAP_SHARED, 0);
    map(ADDRESS, READ_WRITE, MAP, 1);
    map(ADDRESS, EVERYTHING, MAP, 0);
    map(ADDRESS, libc::PROT_WRITE | libc::PROT_EXEC, MAP, 0);
    map(ADDRESS, libc::PROT_WRITE, MAP, 0);
    for outside in [0, 0x1000, 0x40_0000, (1 << 39) - 0x1000, 255 << 39, !0xfff] {
        map(outside, READ_WRITE, MAP, 0);
        stopped("munmap", libc::SYS_munmap, [outside.into(), 0x1000.into()]);
        stopped("mprotect", libc::SYS_mprotect, [outside.into(), 0x1000.into(), 1.into()]);
    }
    stopped("mprotect", libc::SYS_mprotect, [ADDRESS.into(), 0x1000.into(), EVERYTHING.into()]);
    stopped("mremap", libc::SYS_mremap, [ADDRESS.into(), 0x1000.into(), 0x2000.into(), 1.into()]);
    stopped("brk", libc::SYS_brk, [0.into()]);
    stopped("madvise", libc::SYS_madvise, [ADDRESS.into(), 0x1000.into(), libc::MADV_REMOVE.into()]);
    stopped("userfaultfd", libc::SYS_userfaultfd, []);
}

#[test]
fn the_sandbox_cannot_be_changed() {
    stopped("seccomp", libc::SYS_seccomp, [1.into(), 0.into(), path()]);
    stopped("prctl", libc::SYS_prctl, [libc::PR_SET_PDEATHSIG.into(), 0.into()]);
    stopped("arch_prctl", libc::SYS_arch_prctl, [0x1002.into(), path()]);
    stopped("prlimit64", libc::SYS_prlimit64, [0.into(), 4.into(), path()]);
    stopped("bpf", libc::SYS_bpf, [0.into(), path(), 64.into()]);
    stopped("timer_create", libc::SYS_timer_create, [1.into(), path(), path()]);
    stopped("futex", libc::SYS_futex, [path(), libc::FUTEX_LOCK_PI.into()]);
    stopped("close", libc::SYS_close, [0.into()]);
}

#[test]
fn a_guest_ends_only_as_machines_do() {
    stopped("exit_group", libc::SYS_exit_group, [0.into()]);
    stopped("exit", libc::SYS_exit, [0.into()]);
}

#[test]
fn calls_of_the_x32_interface_are_none() {
    for number in [libc::SYS_write, libc::SYS_mmap, libc::SYS_rt_sigreturn] {
        stopped("a system call", 0x4000_0000 | number, [1.into(), path(), 8.into()]);
    }
    stopped("a system call", 100_000, []);
    stopped("a system call", -1, []);
}

#[test]
fn calls_of_another_architecture_end_the_guest() {
    // write(2) and mmap(2) in the numbers of 32-bit programs.
    for number in [4_u64, 90, 20] {
        let outcome = try_to(|guest| {
            guest.code.mov(rax, number)?;
            guest.code.int(0x80)
        });
        let expected =
            "uhyve: error: the guest was killed by the sandbox: a system call of another architecture";
        assert!(outcome.errors.starts_with(expected), "{outcome:?}");
        assert_eq!(outcome.code, Some(KILLED));
    }
}

/// The one page that every process has on some hosts: its calls are filtered, too, or it is not there.
#[test]
fn the_page_of_old_calls_is_no_way_out() {
    let outcome = try_to(|guest| {
        guest.code.mov(rax, 0xffff_ffff_ff60_0400_u64)?;
        guest.code.call(rax)
    });
    assert!(matches!(outcome.code, Some(KILLED | 125)), "{outcome:?}");
}
