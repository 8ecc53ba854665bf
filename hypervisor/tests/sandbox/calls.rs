//! The system-call filters: each role may make the calls that it needs; a denied call is reported and ends
//! the process.
#![expect(unsafe_code, reason = "system calls are made by number")]

use std::os::unix::process::parent_id;
use std::process;

use libc::{c_int, c_long};
use rustix::process::Pid;
use uhyve::sandbox::{EXIT_CODE, Role, Rules, Sandbox};
use vmm_sys_util::signal::{SIGRTMIN, register_signal_handler};

use crate::probe;

const ROLES: [Role; 9] = [
    Role::Main,
    Role::Vcpu,
    Role::Devices,
    Role::Disk,
    Role::Files,
    Role::ReadOnlyFiles,
    Role::Network,
    Role::Output,
    Role::Gdb,
];

/// Roles of the threads of mounts.
const FILES: &[Role] = &[Role::Files, Role::ReadOnlyFiles];

/// Number of fchmodat2(2), which libc lacks for musl.
const SYS_FCHMODAT2: c_long = 452;

/// ioctl(2) requests of KVM, and a request that differs from `KVM_GET_REGS` only in its size.
const KVM_CREATE_VM: c_long = 0xae01;
const KVM_RUN: c_long = 0xae80;
const KVM_GET_REGS: c_long = 0x8090_ae81;
const KVM_GET_REGS_OF_ANOTHER_SIZE: c_long = 0x8091_ae81;
const KVM_SET_REGS: c_long = 0x4090_ae82;
const SET_REGISTERS: &str = "ioctl with KVM_SET_REGS";
const PUNCH: &str = "fallocate that frees a part";
const PUNCH_HOLE: c_long = (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE) as c_long;
const RUN: &str = "ioctl with KVM_RUN";

/// ioctl(2) requests on the notifications of system calls (linux/seccomp.h), for the process engine.
const SECCOMP_IOCTL_NOTIF_RECV: c_long = 0xc050_2100;
const SECCOMP_IOCTL_NOTIF_SEND: c_long = 0xc018_2101;
const SECCOMP_IOCTL_NOTIF_ADDFD: c_long = 0x4018_2103;

/// ioctl(2) requests on TAP devices (linux/if_tun.h), the offload flags that uhyve uses, and a flag that it
/// does not use.
const TUNSETIFF: c_long = 0x4004_54ca;
const TUNSETOFFLOAD: c_long = 0x4004_54d0;
const TAP_OFFLOADS: c_long = 7;
const TAP_ECN: c_long = 8;

/// ioctl(2) requests on terminals and sockets.
const TCSETS: c_long = 0x5402;
const TIOCSTI: c_long = 0x5412;
const FIONBIO: c_long = 0x5421;
const SIOCOUTQ: c_long = 0x5411;
const FIONREAD: c_long = 0x541b;

/// Types of sockets, with the flags that uhyve sets, and the level of options of sockets.
const TCP: c_long = (libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) as c_long;
const RAW: c_long = (libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) as c_long;
const SOCKET: c_long = libc::SOL_SOCKET as c_long;

/// Flag of pidfd_send_signal(2) (linux/pidfd.h).
const PIDFD_SIGNAL_PROCESS_GROUP: c_long = 4;

const PRIVATE: c_long = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as c_long;
const EXECUTABLE: c_long = (libc::PROT_READ | libc::PROT_EXEC) as c_long;
const READABLE: c_long = libc::PROT_READ as c_long;

/// A system call, and the roles that may make it.
struct ProbedCall {
    /// Name of the system call, followed by a description of its arguments.
    name: &'static str,
    number: c_long,
    arguments: [c_long; 6],
    /// Roles that may make the call.
    allowed: &'static [Role],
}

const fn call<const N: usize>(name: &'static str, number: c_long, given: [c_long; N]) -> ProbedCall {
    let mut arguments = [0; 6];
    let mut index = 0;
    while index < N {
        arguments[index] = given[index];
        index += 1;
    }
    ProbedCall { name, number, arguments, allowed: &[] }
}

/// Returns the call as one that only these roles may make.
const fn only(allowed: &'static [Role], call: ProbedCall) -> ProbedCall {
    ProbedCall { allowed, ..call }
}

fn calls() -> Vec<ProbedCall> {
    [files(), sockets(), processes(), memory(), requests(), rest()].into_iter().flatten().collect()
}

fn files() -> Vec<ProbedCall> {
    vec![
        call("open", libc::SYS_open, []),
        only(FILES, call("openat", libc::SYS_openat, [libc::AT_FDCWD.into()])),
        only(&[Role::Files], call("openat to write", libc::SYS_openat, [-1, 0, libc::O_WRONLY.into()])),
        call("openat that makes a file", libc::SYS_openat, [-1, 0, libc::O_CREAT.into()]),
        only(FILES, call("openat2", libc::SYS_openat2, [])),
        only(&[Role::Files], call("mkdirat", libc::SYS_mkdirat, [-1, 0, 0o1777])),
        only(&[Role::Files], call("fchmod", libc::SYS_fchmod, [-1, 0o1777])),
        call("fchmod with a set-id bit", libc::SYS_fchmod, [-1, 0o4755]),
        call("fchmod of standard input", libc::SYS_fchmod, [0, 0o644]),
        call("fchmodat", libc::SYS_fchmodat, [-1, 0, 0o644]),
        call("fchmodat2", SYS_FCHMODAT2, [-1, 0, 0o644]),
        only(&[Role::Files], call("utimensat", libc::SYS_utimensat, [-1])),
        call("utimensat of standard input", libc::SYS_utimensat, [0]),
        call("utimensat of a path", libc::SYS_utimensat, [-1, 4096]),
        call("utimensat of a path at 4 GiB", libc::SYS_utimensat, [-1, 1 << 32]),
        only(&[Role::Files], call("ftruncate", libc::SYS_ftruncate, [-1])),
        call("ftruncate of standard input", libc::SYS_ftruncate, [0]),
        call("mknodat", libc::SYS_mknodat, [-1]),
        call("fchownat", libc::SYS_fchownat, [-1]),
        call("fsetxattr", libc::SYS_fsetxattr, [-1]),
        only(&[Role::Files], call("renameat2", libc::SYS_renameat2, [-1, 0, -1])),
        only(FILES, call("getdents64", libc::SYS_getdents64, [-1])),
        call("creat", libc::SYS_creat, []),
        call("unlink", libc::SYS_unlink, []),
        call("newfstatat", libc::SYS_newfstatat, []),
        only(FILES, call("fstat", libc::SYS_fstat, [-1])),
        call("memfd_create", libc::SYS_memfd_create, []),
        call("mount", libc::SYS_mount, []),
        call("fcntl that duplicates", libc::SYS_fcntl, [0, libc::F_DUPFD.into()]),
        call("dup", libc::SYS_dup, [0]),
        only(&[Role::Disk], call("pwrite64", libc::SYS_pwrite64, [-1])),
        only(&[Role::Disk, Role::Files], call("fdatasync", libc::SYS_fdatasync, [-1])),
        only(
            &[
                Role::Main,
                Role::Devices,
                Role::Disk,
                Role::Files,
                Role::ReadOnlyFiles,
                Role::Network,
                Role::Output,
                Role::Gdb,
            ],
            call("read", libc::SYS_read, [-1]),
        ),
        only(&[Role::Disk], call("readv", libc::SYS_readv, [-1])),
        only(&[Role::Disk], call("writev", libc::SYS_writev, [-1])),
        only(&[Role::Disk], call("writev elsewhere", libc::SYS_writev, [-2])),
        only(&ROLES, call("write", libc::SYS_write, [-1])),
    ]
}

fn sockets() -> Vec<ProbedCall> {
    vec![
        call("socket", libc::SYS_socket, [libc::AF_INET.into(), libc::SOCK_STREAM.into()]),
        call("socket for TCP", libc::SYS_socket, [libc::AF_INET.into(), TCP]),
        call("socket of the host's processes", libc::SYS_socket, [libc::AF_UNIX.into(), TCP]),
        call("socket for frames", libc::SYS_socket, [libc::AF_PACKET.into(), RAW]),
        call("setsockopt with SO_KEEPALIVE", libc::SYS_setsockopt, [-1, SOCKET, libc::SO_KEEPALIVE.into()]),
        call("setsockopt with SO_MARK", libc::SYS_setsockopt, [-1, SOCKET, libc::SO_MARK.into()]),
        call("connect", libc::SYS_connect, [-1]),
        call("bind", libc::SYS_bind, [-1]),
        call("listen", libc::SYS_listen, [-1]),
        call("sendmsg", libc::SYS_sendmsg, [-1]),
        only(&ROLES, call("sendto", libc::SYS_sendto, [-1])),
        call("sendto an address", libc::SYS_sendto, [-1, 0, 0, 0, 0, 16]),
        only(&[Role::Main, Role::Gdb], call("recvfrom", libc::SYS_recvfrom, [-1])),
        only(&[Role::Gdb], call("accept4", libc::SYS_accept4, [-1])),
    ]
}

fn processes() -> Vec<ProbedCall> {
    let own = c_long::from(process::id());
    let parent = c_long::from(parent_id());
    let abort = c_long::from(libc::SIGABRT);
    let kick = c_long::from(SIGRTMIN());
    vec![
        call("execve", libc::SYS_execve, []),
        call("execveat", libc::SYS_execveat, [-1]),
        call("fork", libc::SYS_fork, []),
        call("vfork", libc::SYS_vfork, []),
        call("clone", libc::SYS_clone, []),
        call("clone3", libc::SYS_clone3, []),
        call("ptrace", libc::SYS_ptrace, []),
        call("process_vm_writev", libc::SYS_process_vm_writev, []),
        call("kill of another process", libc::SYS_kill, [parent]),
        call("kill of the process itself", libc::SYS_kill, [own]),
        call("tgkill of another process", libc::SYS_tgkill, [parent, parent, abort]),
        call("tgkill with another signal", libc::SYS_tgkill, [own, own, libc::SIGKILL.into()]),
        call("tkill of another process", libc::SYS_tkill, [parent, abort]),
        call("tkill with another signal", libc::SYS_tkill, [own, libc::SIGKILL.into()]),
        only(&[Role::Main, Role::Gdb], call("tgkill of a processor", libc::SYS_tgkill, [own, own, kick])),
        call("rt_sigaction of the handler of denials", libc::SYS_rt_sigaction, [libc::SIGSYS.into()]),
        call("setuid", libc::SYS_setuid, []),
        call("unshare", libc::SYS_unshare, []),
        call("pidfd_send_signal that kills", libc::SYS_pidfd_send_signal, [-1, libc::SIGKILL.into()]),
        call("pidfd_send_signal of an interrupt", libc::SYS_pidfd_send_signal, [-1, libc::SIGUSR2.into()]),
        call(
            "pidfd_send_signal to the process group",
            libc::SYS_pidfd_send_signal,
            [-1, libc::SIGKILL.into(), 0, PIDFD_SIGNAL_PROCESS_GROUP],
        ),
        call(
            "pidfd_send_signal with a forged siginfo_t",
            libc::SYS_pidfd_send_signal,
            [-1, libc::SIGKILL.into(), 4096],
        ),
        call("pidfd_send_signal that stops", libc::SYS_pidfd_send_signal, [-1, libc::SIGSTOP.into()]),
        call("waitid for a descriptor", libc::SYS_waitid, [libc::P_PIDFD.into(), -1]),
        call("waitid for any child", libc::SYS_waitid, [libc::P_ALL.into()]),
    ]
}

fn memory() -> Vec<ProbedCall> {
    let fixed = PRIVATE | c_long::from(libc::MAP_FIXED);
    vec![
        only(&ROLES, call("mmap", libc::SYS_mmap, [0, 4096, READABLE, PRIVATE, -1])),
        call("mmap of executable memory", libc::SYS_mmap, [0, 4096, EXECUTABLE, PRIVATE, -1]),
        call("mmap of a file", libc::SYS_mmap, [0, 4096, READABLE, libc::MAP_PRIVATE.into(), 0]),
        call("mmap at an address", libc::SYS_mmap, [4096, 4096, READABLE, fixed, -1]),
        only(&ROLES, call("mprotect", libc::SYS_mprotect, [0, 0, READABLE])),
        call("mprotect to executable", libc::SYS_mprotect, [0, 0, EXECUTABLE]),
        call("mremap to an address", libc::SYS_mremap, [0, 0, 0, 3]),
        call("madvise to be removed", libc::SYS_madvise, [0, 0, libc::MADV_REMOVE.into()]),
        only(&[Role::Files], call("fallocate", libc::SYS_fallocate, [-1])),
        only(&[Role::Files], call(PUNCH, libc::SYS_fallocate, [-1, PUNCH_HOLE])),
        only(&[Role::Files], call("fallocate elsewhere", libc::SYS_fallocate, [-2, PUNCH_HOLE])),
        call("userfaultfd", libc::SYS_userfaultfd, []),
    ]
}

fn requests() -> Vec<ProbedCall> {
    let ioctl = |name, request| call(name, libc::SYS_ioctl, [-1, request]);
    vec![
        ioctl("ioctl with TIOCSTI", TIOCSTI),
        ioctl("ioctl with KVM_CREATE_VM", KVM_CREATE_VM),
        ioctl("ioctl with another size", KVM_GET_REGS_OF_ANOTHER_SIZE),
        ioctl(SET_REGISTERS, KVM_SET_REGS),
        only(&[Role::Vcpu], ioctl(RUN, KVM_RUN)),
        only(&[Role::Vcpu], ioctl("ioctl with KVM_GET_REGS", KVM_GET_REGS)),
        ioctl("ioctl with TCSETS", TCSETS),
        ioctl("ioctl with SECCOMP_IOCTL_NOTIF_RECV", SECCOMP_IOCTL_NOTIF_RECV),
        ioctl("ioctl with SECCOMP_IOCTL_NOTIF_SEND", SECCOMP_IOCTL_NOTIF_SEND),
        ioctl("ioctl with SECCOMP_IOCTL_NOTIF_ADDFD", SECCOMP_IOCTL_NOTIF_ADDFD),
        ioctl("ioctl with FIONBIO", FIONBIO),
        ioctl("ioctl with SIOCOUTQ", SIOCOUTQ),
        ioctl("ioctl with FIONREAD", FIONREAD),
        ioctl("ioctl with TUNSETIFF", TUNSETIFF),
        call("ioctl with TUNSETOFFLOAD", libc::SYS_ioctl, [-1, TUNSETOFFLOAD, TAP_OFFLOADS]),
        call("ioctl with TUNSETOFFLOAD elsewhere", libc::SYS_ioctl, [-2, TUNSETOFFLOAD, 0]),
        call("ioctl with TUNSETOFFLOAD of more", libc::SYS_ioctl, [-1, TUNSETOFFLOAD, TAP_ECN]),
    ]
}

fn rest() -> Vec<ProbedCall> {
    vec![
        call("timerfd_settime", libc::SYS_timerfd_settime, [-1]),
        call("timerfd_settime of a date", libc::SYS_timerfd_settime, [-1, 1]),
        call("timerfd_create", libc::SYS_timerfd_create, [1]),
        call("futex with priorities", libc::SYS_futex, [0, libc::FUTEX_LOCK_PI.into()]),
        call("prctl", libc::SYS_prctl, []),
        call("seccomp", libc::SYS_seccomp, []),
        call("bpf", libc::SYS_bpf, []),
        call("io_uring_setup", libc::SYS_io_uring_setup, []),
        // read(2) of the x32 ABI.
        call("a system call of x32", 0x4000_0000, []),
        call("a system call that does not exist", 9999, []),
    ]
}

/// Sends a signal to a thread of this process with tgkill(2). The C library's function may make another
/// system call.
pub(crate) fn signal(thread: Pid, number: c_int) {
    // SAFETY: tgkill(2) takes integers and accesses no memory.
    let result = unsafe { libc::syscall(libc::SYS_tgkill, process::id(), thread.as_raw_pid(), number) };
    assert_eq!(result, 0);
}

/// Confines this thread and makes a call. `action` is `ROLE INDEX`, followed by `debugger`, `process`, `tap`,
/// `limits` or `sockets` to set that rule. The descriptor of the tap is -1, so calls with the first argument
/// -1 are for the tap.
pub(crate) fn act(action: &str) {
    extern "C" fn ignore(_: c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {}
    let words: Vec<_> = action.split(' ').collect();
    let role = ROLES.into_iter().find(|role| role.name() == words[0]).unwrap();
    let calls = calls();
    let ProbedCall { number, arguments: [a, b, c, d, e, f], .. } = calls[words[1].parse::<usize>().unwrap()];
    register_signal_handler(SIGRTMIN(), ignore).unwrap();
    let wants = |word| words.get(2) == Some(&word);
    let tap = wants("tap").then_some(-1);
    let (debugger, process, rate_limits) = (wants("debugger"), wants("process"), wants("limits"));
    let rules = Rules { debugger, process, tap, rate_limits, sockets: wants("sockets"), ..Rules::default() };
    let mut sandbox = Sandbox::new(rules);
    sandbox.confine_process().unwrap();
    sandbox.enter(role).unwrap();
    // SAFETY: no call of `calls` refers to memory in use, so that the kernel changes none, whether the filter
    // allows the call or not: pointers among the arguments are null or the address 4096, at which nothing is
    // mapped.
    let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    eprintln!("the system call has returned {result}");
}

#[test]
fn each_role_may_make_its_calls_and_denials_are_reported() {
    for (index, call) in calls().iter().enumerate() {
        for role in ROLES {
            let outcome = probe::run(&format!("call: {role} {index}"));
            let (name, errors) = (call.name, &outcome.errors);
            if call.allowed.contains(&role) {
                assert!(errors.contains("the system call has returned"), "{role}, {name}: {errors}");
                outcome.expect_success();
                continue;
            }
            assert_eq!(outcome.output.status.code(), Some(EXIT_CODE.into()), "{role}, {name}: {errors}");
            let known = name.split(' ').next().filter(|word| *word != "a").unwrap_or("a system call");
            let message =
                format!("uhyve: the sandbox denied {known} in thread {role} (number {}", call.number);
            assert!(errors.contains(&message), "{role}, {name}: {errors}");
        }
    }
}

#[test]
fn vcpu_sets_registers_only_with_a_debugger() {
    let index = calls().iter().position(|call| call.name == SET_REGISTERS).unwrap();
    probe::run(&format!("call: vcpu {index} debugger")).expect_success();
    let other = probe::run(&format!("call: devices {index} debugger"));
    assert_eq!(other.output.status.code(), Some(EXIT_CODE.into()), "{}", other.errors);
}

#[test]
fn process_rule_allows_seccomp_notifications_and_signals_only() {
    let allowed = |name: &str| match name {
        "ioctl with SECCOMP_IOCTL_NOTIF_RECV"
        | "ioctl with SECCOMP_IOCTL_NOTIF_SEND"
        | "waitid for a descriptor" => Some(&[Role::Vcpu][..]),
        "pidfd_send_signal that kills" => Some(&[Role::Main, Role::Vcpu][..]),
        "pidfd_send_signal of an interrupt" => Some(&ROLES[..ROLES.len() - 1]),
        // Of the memory's descriptor, which is -1 here.
        PUNCH => Some(&[Role::Vcpu, Role::Files][..]),
        "fstat" => Some(&[Role::Main, Role::Vcpu, Role::Files, Role::ReadOnlyFiles][..]),
        RUN
        | "ioctl with KVM_GET_REGS"
        | "ioctl with SECCOMP_IOCTL_NOTIF_ADDFD"
        | "pidfd_send_signal that stops"
        | "pidfd_send_signal to the process group"
        | "pidfd_send_signal with a forged siginfo_t"
        | "waitid for any child" => Some(&[][..]),
        _ => None,
    };
    expect("process", allowed);
}

#[test]
fn tap_rule_allows_network_thread_the_tap_only() {
    expect("tap", |name| match name {
        "readv" | "writev" => Some(&[Role::Disk, Role::Network][..]),
        "writev elsewhere" => Some(&[Role::Disk][..]),
        "ioctl with TUNSETOFFLOAD" => Some(&[Role::Network][..]),
        _ if name.contains("TUNSET") => Some(&[][..]),
        _ => None,
    });
}

#[test]
fn rule_of_rate_limits_allows_threads_of_limited_devices_to_set_timers() {
    expect("limits", |name| match name {
        "timerfd_settime" => Some(&[Role::Disk, Role::Files, Role::ReadOnlyFiles, Role::Network][..]),
        _ if name.contains("timerfd") => Some(&[][..]),
        _ => None,
    });
}

#[test]
fn rule_of_sockets_allows_network_thread_to_connect_but_not_to_listen() {
    expect("sockets", |name| match name {
        "socket for TCP" | "connect" | "setsockopt with SO_KEEPALIVE" => Some(&[Role::Network][..]),
        "bind" | "listen" => Some(&[][..]),
        _ if name.starts_with("socket") || name.starts_with("setsockopt") => Some(&[][..]),
        _ => None,
    });
}

/// Asserts which roles may make a call under this rule. `allowed` returns the roles by the call's name, or
/// `None` for calls that are not checked.
fn expect(rule: &str, allowed: impl Fn(&str) -> Option<&'static [Role]>) {
    for (index, call) in calls().iter().enumerate() {
        let Some(allowed) = allowed(call.name) else { continue };
        for role in ROLES {
            let outcome = probe::run(&format!("call: {role} {index} {rule}"));
            let was_allowed = outcome.errors.contains("the system call has returned");
            assert_eq!(was_allowed, allowed.contains(&role), "{role}, {}: {}", call.name, outcome.errors);
        }
    }
}
