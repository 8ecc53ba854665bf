//! System calls that the roles may make.
//!
//! Each role has a list of system calls, and for some calls lists of conditions on their arguments. All
//! conditions of one list must hold. A call that no list permits is not executed, and ends the process.
//! `docs/sandbox.md` explains the purpose of each call. Except for null pointers, conditions compare only the
//! lower 32 bits of an argument: the argument is of type `int`, or has its flags there. A filter cannot read
//! memory, so it cannot check paths and structures; landlock does.

use std::os::raw::{c_int, c_uint};

use hermit_interface::process::DEVICE;
use kvm_bindings::{
    kvm_debugregs, kvm_fpu, kvm_guest_debug, kvm_regs, kvm_sregs, kvm_translation, kvm_vcpu_events,
};
use libc::{
    SYS_accept4, SYS_brk, SYS_clock_gettime, SYS_clock_nanosleep, SYS_close, SYS_connect, SYS_epoll_create1,
    SYS_epoll_ctl, SYS_epoll_pwait, SYS_epoll_wait, SYS_exit, SYS_exit_group, SYS_faccessat, SYS_fallocate,
    SYS_fchmod, SYS_fcntl, SYS_fdatasync, SYS_fstat, SYS_fstatfs, SYS_fsync, SYS_ftruncate, SYS_futex,
    SYS_getdents64, SYS_getpid, SYS_getrandom, SYS_getsockopt, SYS_gettid, SYS_ioctl, SYS_linkat, SYS_lseek,
    SYS_madvise, SYS_mkdirat, SYS_mmap, SYS_mprotect, SYS_mremap, SYS_munmap, SYS_openat, SYS_openat2,
    SYS_pidfd_send_signal, SYS_poll, SYS_ppoll, SYS_pread64, SYS_preadv, SYS_ptrace, SYS_pwrite64,
    SYS_pwritev, SYS_read, SYS_readlinkat, SYS_readv, SYS_recvfrom, SYS_recvmsg, SYS_renameat2,
    SYS_restart_syscall, SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_sched_yield, SYS_sendto,
    SYS_setsockopt, SYS_shutdown, SYS_sigaltstack, SYS_socket, SYS_symlinkat, SYS_tgkill,
    SYS_timerfd_settime, SYS_tkill, SYS_unlinkat, SYS_utimensat, SYS_wait4, SYS_waitid, SYS_write,
    SYS_writev,
};
use linux_raw_sys::ptrace;
use rustix::ioctl::Opcode;
use rustix::ioctl::opcode::{none, read, read_write, write};

use super::{Role, Rules};
use crate::devices::net::backend::tap::ioctl;

/// Condition on an argument.
#[derive(Clone, Copy, Debug)]
pub(super) enum ArgumentCheck {
    /// The argument of this index equals the value.
    Is(u8, c_int),
    /// The argument of this index is this request of ioctl(2).
    Request(u8, Opcode),
    /// The first argument is this request of ptrace(2).
    Ptrace(c_uint),
    /// The argument of this index has only bits of this mask.
    Within(u8, c_int),
    /// The argument of this index equals `value`, except for the bits of `free`, which may have any value.
    IsBut { argument: u8, value: c_int, free: c_int },
    /// The argument of this index is the ID of this process.
    OwnProcess(u8),
    /// The argument of this index is the ID of the thread that installs the filter.
    OwnThread(u8),
    /// The argument of this index is the signal that interrupts a vCPU thread.
    VcpuSignal(u8),
    /// The argument of this index is the file descriptor of the tap.
    Tap(u8),
    /// The argument of this index is the file descriptor of the guest's memory.
    Memory(u8),
    /// The argument of this index is a null pointer.
    Null(u8),
    /// The argument of this index is not a descriptor of a file that was open before the process was
    /// confined. So if the descriptor refers to a file, landlock has permitted the process to open that file.
    OpenedLater(u8),
}

use ArgumentCheck::{
    Is, IsBut, Memory, Null, OpenedLater, OwnProcess, OwnThread, Ptrace, Request, Tap, VcpuSignal, Within,
};

/// Number of a system call, and alternative lists of conditions: all conditions of one list must hold.
/// Without lists the call is always allowed.
pub(super) type CallRule = (libc::c_long, &'static [&'static [ArgumentCheck]]);

/// Protection of memory: readable or writable, not executable.
const DATA: c_int = libc::PROT_READ | libc::PROT_WRITE;

/// Flags of mmap(2) for private anonymous memory at an address of the kernel's choice.
const ANONYMOUS: c_int = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;

/// Flags of futex(2) that may have any value: they select the clock, and whether the futex is shared.
const FUTEX_FLAGS: c_int = libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME;

const fn futex(operation: c_int) -> ArgumentCheck {
    IsBut { argument: 1, value: operation, free: FUTEX_FLAGS }
}

/// KVM's ioctl type, and its requests (linux/kvm.h).
const KVMIO: u8 = 0xae;
const KVM_RUN: Opcode = none(KVMIO, 0x80);
const KVM_GET_REGS: Opcode = read::<kvm_regs>(KVMIO, 0x81);
const KVM_SET_REGS: Opcode = write::<kvm_regs>(KVMIO, 0x82);
const KVM_GET_SREGS: Opcode = read::<kvm_sregs>(KVMIO, 0x83);
const KVM_SET_SREGS: Opcode = write::<kvm_sregs>(KVMIO, 0x84);
const KVM_TRANSLATE: Opcode = read_write::<kvm_translation>(KVMIO, 0x85);
const KVM_GET_FPU: Opcode = read::<kvm_fpu>(KVMIO, 0x8c);
const KVM_SET_FPU: Opcode = write::<kvm_fpu>(KVMIO, 0x8d);
const KVM_SET_GUEST_DEBUG: Opcode = write::<kvm_guest_debug>(KVMIO, 0x9b);
const KVM_GET_VCPU_EVENTS: Opcode = read::<kvm_vcpu_events>(KVMIO, 0x9f);
const KVM_SET_VCPU_EVENTS: Opcode = write::<kvm_vcpu_events>(KVMIO, 0xa0);
const KVM_GET_DEBUGREGS: Opcode = read::<kvm_debugregs>(KVMIO, 0xa1);
const KVM_SET_DEBUGREGS: Opcode = write::<kvm_debugregs>(KVMIO, 0xa2);

/// Requests of a seccomp listener (linux/seccomp.h).
const SECCOMP_IOCTL_NOTIF_RECV: Opcode = read_write::<libc::seccomp_notif>(b'!', 0);
const SECCOMP_IOCTL_NOTIF_SEND: Opcode = read_write::<libc::seccomp_notif_resp>(b'!', 1);

/// Calls of all roles: the standard library and the C library make them for locks, memory, thread exit,
/// abort(3), and the handler of stack overflows.
const COMMON: &[CallRule] = &[
    (SYS_write, &[]),
    (SYS_close, &[]),
    // send(2), that is, without an address. The handlers of SIGINT and SIGTERM, which run in any thread, wake
    // the main thread with it.
    (SYS_sendto, &[&[Is(5, 0)]]),
    (
        SYS_futex,
        &[
            &[futex(libc::FUTEX_WAIT)],
            &[futex(libc::FUTEX_WAKE)],
            &[futex(libc::FUTEX_WAIT_BITSET)],
            &[futex(libc::FUTEX_WAKE_BITSET)],
        ],
    ),
    (SYS_brk, &[]),
    (
        SYS_mmap,
        &[&[
            Within(2, DATA),
            IsBut { argument: 3, value: ANONYMOUS, free: libc::MAP_NORESERVE | libc::MAP_STACK },
        ]],
    ),
    (SYS_mprotect, &[&[Within(2, DATA)]]),
    (SYS_mremap, &[&[Within(3, libc::MREMAP_MAYMOVE)]]),
    (SYS_munmap, &[]),
    (SYS_madvise, &[&[Is(2, libc::MADV_DONTNEED)]]),
    (SYS_rt_sigaction, &[&[Is(0, libc::SIGSEGV)], &[Is(0, libc::SIGBUS)]]),
    (SYS_rt_sigprocmask, &[]),
    (SYS_rt_sigreturn, &[]),
    (SYS_sigaltstack, &[]),
    (SYS_tgkill, &[&[OwnProcess(0), Is(2, libc::SIGABRT)]]),
    // abort(3) of musl makes this call with all signals blocked. If the filter denied it, SIGSYS would kill
    // the process without a report.
    (SYS_tkill, &[&[OwnThread(0), Is(1, libc::SIGABRT)]]),
    (SYS_getpid, &[]),
    (SYS_gettid, &[]),
    (SYS_clock_gettime, &[]),
    (SYS_clock_nanosleep, &[]),
    (SYS_getrandom, &[]),
    (SYS_sched_yield, &[]),
    // A message waits, for a limited time, until standard error accepts it.
    (SYS_poll, &[]),
    (SYS_ppoll, &[]),
    // A standard library with debug assertions checks a descriptor before it closes it.
    (SYS_fcntl, &[&[Is(1, libc::F_GETFD)]]),
    (SYS_restart_syscall, &[]),
    (SYS_exit, &[]),
    (SYS_exit_group, &[]),
];

/// Main thread.
const MAIN: &[CallRule] = &[
    (SYS_read, &[]),
    (SYS_recvfrom, &[]),
    (SYS_epoll_create1, &[]),
    (SYS_epoll_ctl, &[]),
    (SYS_epoll_wait, &[]),
    (SYS_epoll_pwait, &[]),
    (SYS_tgkill, &[&[OwnProcess(0), VcpuSignal(2)]]),
];

/// vCPU thread on KVM.
const KVM_VCPU: &[CallRule] = &[(
    SYS_ioctl,
    &[
        &[Request(1, KVM_RUN)],
        // For the error message about a vCPU that cannot continue.
        &[Request(1, KVM_GET_REGS)],
        &[Request(1, KVM_TRANSLATE)],
    ],
)];

/// vCPU thread on KVM with a debugger.
const KVM_VCPU_DEBUG: &[CallRule] = &[(
    SYS_ioctl,
    &[
        &[Request(1, KVM_SET_REGS)],
        &[Request(1, KVM_GET_SREGS)],
        &[Request(1, KVM_SET_SREGS)],
        &[Request(1, KVM_GET_FPU)],
        &[Request(1, KVM_SET_FPU)],
        &[Request(1, KVM_SET_GUEST_DEBUG)],
        &[Request(1, KVM_GET_DEBUGREGS)],
        &[Request(1, KVM_SET_DEBUGREGS)],
        &[Request(1, KVM_GET_VCPU_EVENTS)],
        &[Request(1, KVM_SET_VCPU_EVENTS)],
    ],
)];

/// Arguments of pidfd_send_signal(2): no forged `siginfo_t`, and only the process, not its group.
const NO_INFO: ArgumentCheck = Is(2, 0);
const NO_FLAGS: ArgumentCheck = Is(3, 0);

/// Main thread with the process engine: fstat(2) of the memory's file for statistics, and signals to the
/// guest for the power button's interrupt and to kill it.
const PROCESS_MAIN: &[CallRule] = &[
    (SYS_fstat, &[]),
    (
        SYS_pidfd_send_signal,
        &[&[Is(1, DEVICE.cast_signed()), NO_INFO, NO_FLAGS], &[Is(1, libc::SIGKILL), NO_INFO, NO_FLAGS]],
    ),
];

/// Flags of fallocate(2) that free a part of a file, and keep its size.
const PUNCH_HOLE: c_int = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;

/// vCPU thread with the process engine: responds to hypercalls, and kills the guest. With a hypercall, the
/// guest may also return memory to the host (fallocate).
const PROCESS_VCPU: &[CallRule] = &[
    (SYS_fallocate, &[&[Memory(0), Is(1, PUNCH_HOLE)]]),
    (SYS_fstat, &[&[Memory(0)]]),
    (SYS_ioctl, &[&[Request(1, SECCOMP_IOCTL_NOTIF_RECV)], &[Request(1, SECCOMP_IOCTL_NOTIF_SEND)]]),
    (SYS_pidfd_send_signal, &[&[Is(1, libc::SIGKILL), NO_INFO, NO_FLAGS]]),
    (SYS_waitid, &[&[Is(0, libc::P_PIDFD.cast_signed())]]),
];

/// vCPU thread with the process engine and a debugger: traces a thread of the guest. It cannot trace other
/// processes, because landlock permits a process to trace only processes that are at least as confined as
/// itself.
const PROCESS_VCPU_DEBUG: &[CallRule] = &[
    (
        SYS_ptrace,
        &[
            &[Ptrace(ptrace::PTRACE_SEIZE)],
            &[Ptrace(ptrace::PTRACE_INTERRUPT)],
            &[Ptrace(ptrace::PTRACE_CONT)],
            &[Ptrace(ptrace::PTRACE_SINGLESTEP)],
            &[Ptrace(ptrace::PTRACE_GETREGS)],
            &[Ptrace(ptrace::PTRACE_SETREGS)],
            &[Ptrace(ptrace::PTRACE_GETREGSET)],
            &[Ptrace(ptrace::PTRACE_SETREGSET)],
            &[Ptrace(ptrace::PTRACE_PEEKUSR)],
            &[Ptrace(ptrace::PTRACE_POKEUSR)],
            &[Ptrace(ptrace::PTRACE_GETSIGINFO)],
            &[Ptrace(ptrace::PTRACE_GETEVENTMSG)],
            &[Ptrace(ptrace::PTRACE_GETSIGMASK)],
            &[Ptrace(ptrace::PTRACE_PEEKSIGINFO)],
            &[Ptrace(ptrace::PTRACE_SETSIGMASK)],
        ],
    ),
    (SYS_wait4, &[]),
];

/// Interrupts to the guest with the process engine.
const PROCESS_INTERRUPT: &[CallRule] =
    &[(SYS_pidfd_send_signal, &[&[Is(1, DEVICE.cast_signed()), NO_INFO, NO_FLAGS]])];

/// Device thread and output threads. They need no rule for write(2), which is in [`COMMON`].
const DEVICES: &[CallRule] =
    &[(SYS_read, &[]), (SYS_epoll_ctl, &[]), (SYS_epoll_wait, &[]), (SYS_epoll_pwait, &[])];

/// Disk thread.
const DISK: &[CallRule] = &[
    (SYS_read, &[]),
    (SYS_readv, &[]),
    (SYS_writev, &[]),
    (SYS_lseek, &[]),
    (SYS_pread64, &[]),
    (SYS_pwrite64, &[]),
    (SYS_preadv, &[]),
    (SYS_pwritev, &[]),
    (SYS_fdatasync, &[]),
    (SYS_epoll_ctl, &[]),
    (SYS_epoll_wait, &[]),
    (SYS_epoll_pwait, &[]),
];

/// Flags with which the thread of a read-only mount opens files that it has looked up.
const READ_FLAGS: c_int = libc::O_APPEND
    | libc::O_SYNC
    | libc::O_DIRECTORY
    | libc::O_NONBLOCK
    | libc::O_NOCTTY
    | libc::O_CLOEXEC
    | libc::O_PATH
    | O_LARGEFILE;

/// Flags with which the files thread opens files that it has looked up. Flags that create a file are missing.
const OPEN_FLAGS: c_int = READ_FLAGS | libc::O_ACCMODE | libc::O_TRUNC;

/// Flag that rustix adds to each openat(2) (asm-generic/fcntl.h). `libc::O_LARGEFILE` cannot be used: it is
/// 0, because 64-bit programs do not need the flag.
const O_LARGEFILE: c_int = 0o100_000;

/// Permission bits that the files thread may set. The set-user-ID and set-group-ID bits are missing.
const MODE: c_int = 0o1777;

/// Files thread, whether the mount can be changed or not.
const ANY_FILES: &[CallRule] = &[
    (SYS_read, &[]),
    (SYS_epoll_ctl, &[]),
    (SYS_epoll_wait, &[]),
    (SYS_epoll_pwait, &[]),
    // The flags of openat2(2) are in memory, which a filter cannot read. So only landlock limits which files
    // openat2(2) opens and creates.
    (SYS_openat2, &[]),
    (SYS_fstat, &[]),
    (SYS_fstatfs, &[]),
    (SYS_readlinkat, &[]),
    (SYS_faccessat, &[]),
    (SYS_preadv, &[]),
    (SYS_lseek, &[]),
    (SYS_getdents64, &[]),
];

/// Files thread of a mount that cannot be changed: no call that changes a file.
const READ_ONLY_FILES: &[CallRule] = &[(SYS_openat, &[&[Within(2, READ_FLAGS)]])];

/// Files thread of a mount that can be changed. Landlock lets the thread open, create and remove files only
/// in the mounted folders. But landlock has no access right for changes of permissions and times. So the
/// calls that change these take a descriptor, which landlock has permitted to open, and never a path. A
/// descriptor with `O_PATH` can be opened for any path in spite of landlock, but these calls refuse it
/// (`EBADF`).
const FILES: &[CallRule] = &[
    (SYS_openat, &[&[Within(2, OPEN_FLAGS)]]),
    (SYS_fchmod, &[&[OpenedLater(0), Within(1, MODE)]]),
    (SYS_utimensat, &[&[OpenedLater(0), Null(1), Is(3, 0)]]),
    (SYS_ftruncate, &[&[OpenedLater(0)]]),
    (SYS_fallocate, &[&[OpenedLater(0)]]),
    (SYS_pwritev, &[&[OpenedLater(0)]]),
    (SYS_fsync, &[]),
    (SYS_fdatasync, &[]),
    (SYS_mkdirat, &[&[Within(2, MODE)]]),
    (SYS_symlinkat, &[]),
    (SYS_linkat, &[&[Is(4, libc::AT_SYMLINK_FOLLOW)]]),
    (SYS_unlinkat, &[&[Within(2, libc::AT_REMOVEDIR)]]),
    (SYS_renameat2, &[&[Within(4, (libc::RENAME_NOREPLACE | libc::RENAME_EXCHANGE).cast_signed())]]),
];

/// Network thread.
const NETWORK: &[CallRule] =
    &[(SYS_read, &[]), (SYS_epoll_ctl, &[]), (SYS_epoll_wait, &[]), (SYS_epoll_pwait, &[])];

/// Network thread with a tap: reads and writes frames, and sets the offloads that the guest's driver
/// negotiates.
const TAP_NETWORK: &[CallRule] = &[
    (SYS_readv, &[&[Tap(0)]]),
    (SYS_writev, &[&[Tap(0)]]),
    (SYS_ioctl, &[&[Tap(0), Request(1, ioctl::TUNSETOFFLOAD), Within(2, ioctl::USED_OFFLOADS)]]),
];

/// Flags, families and types of the sockets that a network thread opens.
const SOCKET_FLAGS: c_int = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
const STREAM: ArgumentCheck = Is(1, libc::SOCK_STREAM | SOCKET_FLAGS);
const DATAGRAM: ArgumentCheck = Is(1, libc::SOCK_DGRAM | SOCKET_FLAGS);

/// Network thread with the backend `user`: opens sockets for the guest's TCP, UDP and ICMP echo. It needs no
/// bind(2), because the sockets of the forwarded ports were opened before.
const SOCKETS: &[CallRule] = &[
    (
        SYS_socket,
        &[
            &[Is(0, libc::AF_INET), STREAM, Is(2, 0)],
            &[Is(0, libc::AF_INET6), STREAM, Is(2, 0)],
            &[Is(0, libc::AF_INET), DATAGRAM, Is(2, 0)],
            &[Is(0, libc::AF_INET6), DATAGRAM, Is(2, 0)],
            &[Is(0, libc::AF_INET), DATAGRAM, Is(2, libc::IPPROTO_ICMP)],
            &[Is(0, libc::AF_INET6), DATAGRAM, Is(2, libc::IPPROTO_ICMPV6)],
        ],
    ),
    (SYS_connect, &[]),
    (SYS_accept4, &[&[Is(3, SOCKET_FLAGS)]]),
    (SYS_shutdown, &[&[Is(1, libc::SHUT_WR)]]),
    (SYS_getsockopt, &[&[Is(1, libc::SOL_SOCKET), Is(2, libc::SO_ERROR)]]),
    (
        SYS_setsockopt,
        &[
            &[Is(1, libc::SOL_SOCKET), Is(2, libc::SO_PEEK_OFF)],
            &[Is(1, libc::SOL_SOCKET), Is(2, libc::SO_LINGER)],
            &[Is(1, libc::SOL_SOCKET), Is(2, libc::SO_KEEPALIVE)],
            &[Is(1, libc::SOL_SOCKET), Is(2, libc::SO_OOBINLINE)],
            &[Is(1, libc::IPPROTO_TCP), Is(2, libc::TCP_NODELAY)],
        ],
    ),
    (SYS_recvmsg, &[&[Is(2, libc::MSG_PEEK | libc::MSG_DONTWAIT)]]),
    (SYS_recvfrom, &[]),
    (SYS_readv, &[]),
    (SYS_writev, &[]),
    (SYS_sendto, &[&[Is(3, libc::MSG_NOSIGNAL)]]),
    (SYS_timerfd_settime, &[&[Is(1, 0)]]),
];

/// Disk, files or network thread with a rate limit: sets the timer with which it waits for the limit.
const RATE_LIMITS: &[CallRule] = &[(SYS_timerfd_settime, &[&[Is(1, 0)]])];

/// gdb thread. It reads the table of TCP sockets, which was opened before.
const GDB: &[CallRule] = &[
    (SYS_epoll_create1, &[]),
    (SYS_read, &[]),
    (SYS_pread64, &[]),
    (SYS_accept4, &[]),
    (SYS_recvfrom, &[]),
    (SYS_epoll_ctl, &[]),
    (SYS_epoll_wait, &[]),
    (SYS_epoll_pwait, &[]),
    (SYS_tgkill, &[&[OwnProcess(0), VcpuSignal(2)]]),
];

/// Returns the rules of a role. A call with several rules is allowed if the conditions of one of them hold.
pub(super) fn of(role: Role, rules: &Rules) -> impl Iterator<Item = CallRule> {
    let [own, more, debugging]: [&[CallRule]; 3] = match role {
        Role::Main if rules.process => [MAIN, PROCESS_MAIN, &[]],
        Role::Main => [MAIN, &[], &[]],
        Role::Vcpu if rules.process => [PROCESS_VCPU, PROCESS_INTERRUPT, PROCESS_VCPU_DEBUG],
        Role::Vcpu => [KVM_VCPU, &[], KVM_VCPU_DEBUG],
        Role::Devices | Role::Output if rules.process => [DEVICES, PROCESS_INTERRUPT, &[]],
        Role::Devices | Role::Output => [DEVICES, &[], &[]],
        Role::Disk if rules.process => [DISK, PROCESS_INTERRUPT, &[]],
        Role::Disk => [DISK, &[], &[]],
        Role::Files | Role::ReadOnlyFiles if rules.process => [ANY_FILES, PROCESS_INTERRUPT, &[]],
        Role::Files | Role::ReadOnlyFiles => [ANY_FILES, &[], &[]],
        Role::Network if rules.process => [NETWORK, PROCESS_INTERRUPT, &[]],
        Role::Network => [NETWORK, &[], &[]],
        Role::Gdb => [GDB, &[], &[]],
    };
    let debugging = if rules.debugger { debugging } else { &[] };
    let kind = match role {
        Role::Network if rules.tap.is_some() => TAP_NETWORK,
        Role::Network if rules.sockets => SOCKETS,
        Role::Files => FILES,
        Role::ReadOnlyFiles => READ_ONLY_FILES,
        _ => &[],
    };
    let is_limited =
        rules.rate_limits && matches!(role, Role::Disk | Role::Files | Role::ReadOnlyFiles | Role::Network);
    let limits = if is_limited { RATE_LIMITS } else { &[] };
    [COMMON, own, more, debugging, kind, limits].into_iter().flatten().copied()
}
