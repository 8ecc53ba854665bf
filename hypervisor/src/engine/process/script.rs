//! The system calls that make a guest's process what its kernel expects.

use std::io;
use std::mem::offset_of;

use hermit_interface::process::{Cpu, MEMORY};

use rustix::process::{Resource, getrlimit};

use super::ProcessError;
use super::filter::{self, Filter, Others};
use super::mappings::Mapping;
use super::program::{BASE, Program, place_in_file};

/// Descriptors that the process has until its kernel runs: a socket to this process, and rules of landlock, if the host has it.
pub(super) const CONTROL: u32 = 129;
pub(super) const RULES: u32 = 130;

/// The end of what programs can map (arch/x86, `TASK_SIZE_MAX`).
const END: u64 = (1 << 47) - 0x1000;

/// What shows up in lists of processes.
const NAME: &[u8] = b"uhyve-guest\0";

/// How often the kernel may map all memory, and how many bytes besides: so many bytes of addresses at once. Page tables of the
/// host are a 512th of that and, if the kernel is out for it, 8 KiB for each mapping that the host allows; nothing but a limit for
/// the whole process (cgroups) limits them otherwise.
const MAPPED: (u64, u64) = (16, 1 << 30);

/// Signals that are exceptions, and the one by which a terminal stops programs. Others are this process's business, or the
/// kernel's to unblock: SIGTERM to the whole group must not end the guest first.
const NOT_BLOCKED: [libc::c_int; 6] =
    [libc::SIGILL, libc::SIGTRAP, libc::SIGBUS, libc::SIGFPE, libc::SIGSEGV, libc::SIGTSTP];

/// Threads share everything.
const THREAD: libc::c_int = libc::CLONE_VM
    | libc::CLONE_FS
    | libc::CLONE_FILES
    | libc::CLONE_SIGHAND
    | libc::CLONE_THREAD
    | libc::CLONE_SYSVSEM
    | libc::CLONE_PARENT_SETTID;

/// How a filter is installed.
const TO_ALL: libc::c_ulong = libc::SECCOMP_FILTER_FLAG_TSYNC | libc::SECCOMP_FILTER_FLAG_TSYNC_ESRCH;
const WITH_LISTENER: libc::c_ulong =
    libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;

/// What a process is to be.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) mappings: Vec<Mapping>,
    /// Where the array of [`Cpu`] is.
    pub(super) cpus: u64,
    pub(super) count: u32,
    /// Bytes of memory.
    pub(super) memory: u64,
    /// Where the first processor begins, and what it gets.
    pub(super) entry: u64,
    pub(super) argument: u64,
    /// Its system calls are handed to tracers ([`super::traced`]), which it waits for.
    pub(super) is_traced: bool,
}

/// A program, and where in its file the identifier of its process must be put.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) file: Vec<u8>,
    pub(super) process: u64,
}

/// Writes the program. The filter's listener will have the descriptor `listener`; `has_rules` is whether there is [`RULES`].
pub(super) fn write(plan: &Plan, listener: u32, has_rules: bool) -> Result<Script, ProcessError> {
    let mut program = Program::new();
    confine(&mut program, plan.memory, has_rules);
    for mapping in &plan.mappings {
        map(&mut program, mapping);
    }
    start_threads(&mut program, plan);
    let make_filter = |message, others| {
        filter::new(message, others)
            .map_err(|error| ProcessError::Refused { call: "seccomp", source: io::Error::other(error) })
    };
    let process = if plan.is_traced {
        wait_for_tracers(&mut program);
        install(&mut program, &make_filter(None, Others::Trace)?, TO_ALL)
    } else {
        let message = message(&mut program, listener);
        let filter = make_filter(Some(message), Others::Notify)?;
        let process = install(&mut program, &filter, TO_ALL | WITH_LISTENER);
        program.call(libc::SYS_sendmsg, [CONTROL.into(), message, 0]);
        program.call(libc::SYS_close, [listener.into()]);
        process
    };
    program.call(libc::SYS_close, [CONTROL.into()]);
    Ok(Script { file: program.finish(plan.entry, plan.argument), process })
}

/// Says that the threads are there, and waits for a byte.
fn wait_for_tracers(program: &mut Program) {
    let byte = program.data(&[0]);
    program.call(libc::SYS_write, [CONTROL.into(), byte, 1]);
    // Nothing is received, for there is no memory for it: the byte stays where it is.
    program.call(libc::SYS_recvfrom, [CONTROL.into()]);
}

/// Gives everything up that is not the machine's, and all threads inherit.
fn confine(program: &mut Program, memory: u64, has_rules: bool) {
    program.call(libc::SYS_prctl, [flag(libc::PR_SET_PDEATHSIG), flag(libc::SIGKILL)]);
    let name = program.data(NAME);
    program.call(libc::SYS_prctl, [flag(libc::PR_SET_NAME), name]);
    // Not 0: that does not keep the host from piping memory to a program.
    let core = getrlimit(Resource::Core).maximum.unwrap_or(u64::MAX);
    limit(program, libc::RLIMIT_CORE, core.min(1));
    // A limit that there is already cannot be raised by everybody.
    let addresses = memory.saturating_mul(MAPPED.0).saturating_add(MAPPED.1);
    let maximum = getrlimit(Resource::As).maximum.unwrap_or(u64::MAX);
    limit(program, libc::RLIMIT_AS, addresses.min(maximum));
    // Stack, vdso and all else that the host has put there.
    program.call(libc::SYS_munmap, [0, BASE]);
    let above = BASE + (1 << 20);
    program.call(libc::SYS_munmap, [above, END - above]);
    let signals = NOT_BLOCKED.iter().fold(u64::MAX, |set, signal| set & !(1 << (signal - 1)));
    let signals = program.data(&signals.to_le_bytes());
    program.call(libc::SYS_rt_sigprocmask, [flag(libc::SIG_SETMASK), signals, 0, 8]);
    program.call(libc::SYS_prctl, [flag(libc::PR_SET_NO_NEW_PRIVS), 1]);
    if has_rules {
        program.call(libc::SYS_landlock_restrict_self, [RULES.into()]);
        program.call(libc::SYS_close, [RULES.into()]);
    }
}

fn limit(program: &mut Program, resource: u32, value: u64) {
    let limits = program.data(&words(&[value, value]));
    program.call(libc::SYS_prlimit64, [0, resource.into(), limits]);
}

fn map(program: &mut Program, mapping: &Mapping) {
    let Mapping { address, size, offset, protection } = *mapping;
    let flags = flag(libc::MAP_SHARED | libc::MAP_FIXED);
    program.call(libc::SYS_mmap, [address, size, flag(protection), flags, MEMORY.into(), offset]);
}

/// A thread for each processor but the first, and a timer for each.
fn start_threads(program: &mut Program, plan: &Plan) {
    let cpu = |number: u32| plan.cpus + u64::from(number) * size_of::<Cpu>() as u64;
    for number in 1..plan.count {
        let thread = cpu(number) + offset_of!(Cpu, thread) as u64;
        program.call(libc::SYS_clone, [flag(THREAD), 0, thread]);
    }
    for number in 0..plan.count {
        let timer = cpu(number) + offset_of!(Cpu, timer) as u64;
        program.call(libc::SYS_timer_create, [flag(libc::CLOCK_MONOTONIC), cpu(number), timer]);
    }
}

/// Has all threads filtered; returns where in the file the process's identifier is missing.
fn install(program: &mut Program, filter: &Filter, flags: libc::c_ulong) -> u64 {
    let instructions = program.data(&filter.bytes);
    // `struct sock_fprog`.
    let [length, instructions_word] = [filter.length.into(), instructions];
    let description = program.data(&words(&[length, instructions_word]));
    program.call(libc::SYS_seccomp, [libc::SECCOMP_SET_MODE_FILTER.into(), flags, description]);
    place_in_file(instructions) + filter.process as u64
}

/// The message that carries the listener's descriptor (`struct msghdr`, cmsg(3)): one byte, and one descriptor.
fn message(program: &mut Program, listener: u32) -> u64 {
    let byte = program.data(&[0]);
    let bytes = program.data(&words(&[byte, 1]));
    let header =
        u64::from(libc::SOL_SOCKET.unsigned_abs()) | u64::from(libc::SCM_RIGHTS.unsigned_abs()) << 32;
    let control = program.data(&words(&[20, header, listener.into()]));
    program.data(&words(&[0, 0, bytes, 1, control, 24, 0]))
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// None of the flags here is negative.
fn flag(flag: libc::c_int) -> u64 {
    flag.unsigned_abs().into()
}
