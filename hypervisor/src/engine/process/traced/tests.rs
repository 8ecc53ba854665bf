//! Attacks by the tracer of a guest: code that has taken over uhyve must not make the guest execute denied
//! system calls.

use std::ptr;

use hermit_interface::process::{ADDRESSES, CALL};
use libc::c_long;
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::registers;
use super::tracee::{ResumeMode, TraceStop, Tracee};
use crate::engine::process::bootstrap::{self, syscalls::BootstrapConfig};
use crate::engine::process::guest_process::{PausedProcess, StartingProcess};
use crate::engine::process::memory_map;
use crate::engine::process::owned_process::ExitStatus;
use crate::memory::Memory;

/// Opcode of the instruction `syscall`.
const SYSCALL: [u8; 2] = [0x0f, 0x05];

/// Starts a process that is traced, and waits for its tracer.
fn start() -> (PausedProcess, Pid) {
    let memory = Memory::shared("8M".parse().unwrap()).unwrap();
    let config = BootstrapConfig {
        mappings: vec![memory_map::first_page(ADDRESSES.start)],
        cpu_array: ADDRESSES.start,
        cpu_count: 1,
        memory_size: memory.size(),
        windows: [ADDRESSES; 2],
        entry: 0,
        argument: 0,
        is_traced: true,
        has_pid_namespace: false,
        disabled_speculation: Vec::new(),
    };
    let process = StartingProcess::start(&config, &memory, &[]).unwrap().into_paused().unwrap();
    (process, Pid::from_raw(bootstrap::thread_id(&memory, 0).unwrap()))
}

/// Resumes the tracee, and waits for its next stop.
fn resume(tracee: &mut Tracee, mode: ResumeMode) -> TraceStop {
    tracee.resume(mode, None).unwrap();
    tracee.wait().unwrap()
}

/// Steps through the bootstrap to the kernel's entry point, address 0, and returns the address of a `syscall`
/// instruction.
fn enter(tracee: &mut Tracee) -> u64 {
    let mut found = 0;
    loop {
        let rip = registers::rip(tracee.thread).unwrap();
        if rip == 0 {
            return found;
        }
        let code =
            ptrace::read(tracee.thread, ptr::with_exposed_provenance_mut(usize::try_from(rip).unwrap()));
        if code.unwrap().to_le_bytes().starts_with(&SYSCALL) {
            found = rip;
        }
        let stop = resume(tracee, ResumeMode::StepWithSignals);
        assert!(!matches!(stop, TraceStop::Exited(_)), "{stop:?} at {rip:#x}");
    }
}

/// Lets the tracee make a hypercall, and replaces its number when it is reported. Returns the stop after the
/// call.
fn replace(tracee: &mut Tracee, syscall: u64, number: c_long) -> TraceStop {
    let registers = ptrace::getregs(tracee.thread).unwrap();
    let call = libc::user_regs_struct { rip: syscall, rax: CALL, orig_rax: u64::MAX, ..registers };
    ptrace::setregs(tracee.thread, call).unwrap();
    assert_eq!(resume(tracee, ResumeMode::Continue), TraceStop::Hypercall);
    let registers = ptrace::getregs(tracee.thread).unwrap();
    assert_eq!(registers.orig_rax, CALL);
    let orig_rax = number.cast_unsigned();
    ptrace::setregs(tracee.thread, libc::user_regs_struct { orig_rax, ..registers }).unwrap();
    resume(tracee, ResumeMode::StepWithSignals)
}

/// Linux filters the call again, by its new number.
#[test]
fn tracer_cannot_replace_a_hypercall_by_a_call_that_the_filter_denies() {
    for denied in [libc::SYS_getpid, libc::SYS_openat, libc::SYS_socket, libc::SYS_unshare] {
        let (process, thread) = start();
        let mut tracee = Tracee::new(thread);
        assert_eq!(tracee.seize(), Ok(TraceStop::Interrupted));
        process.resume().unwrap();
        let syscall = enter(&mut tracee);
        assert_eq!(
            replace(&mut tracee, syscall, libc::SYS_sched_yield),
            TraceStop::Signal(Signal::SIGTRAP),
            "a call that the filter allows returns"
        );
        assert_eq!(
            replace(&mut tracee, syscall, denied),
            TraceStop::Exited(ExitStatus::Signal(libc::SIGSYS)),
            "{denied}"
        );
        super::tracee::reap(thread);
    }
}
