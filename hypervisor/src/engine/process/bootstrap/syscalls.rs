//! Bootstrap system calls: they prepare a new process for the guest's kernel.
//!
//! The first calls confine the process, and unmap all memory that the host has given it. The next calls map
//! the VM's memory, start a thread for each CPU, and create timers. The seccomp filter comes last, because it
//! denies most of the previous calls. Without a debugger, the process then sends the filter's listener to the
//! hypervisor, and waits in its first hypercall until the hypervisor is confined as well. With a debugger,
//! the process waits for its tracers before it installs the filter.

use std::mem::offset_of;

use hermit_interface::boot_info::Region;
use hermit_interface::process::{CALL, MEMORY, SharedCpu};
use linux_raw_sys::general::{RLIMIT_AS, RLIMIT_CORE};
use linux_raw_sys::prctl::PR_SET_SPECULATION_CTRL;
use rustix::process::{Resource, SpeculationFeature, SpeculationFeatureControl, getrlimit};

use super::elf::{BASE, BootstrapElf, file_offset};
use crate::engine::process::fds::{CONTROL_FD, RULESET_FD};
use crate::engine::process::memory_map::Mapping;
use crate::engine::process::seccomp::{Filter, HypercallAction, ListenerMessage, MappingLimits};
use crate::sandbox;

/// End of the user address space (arch/x86, `TASK_SIZE_MAX`).
const TASK_SIZE: u64 = (1 << 47) - 0x1000;

/// Name of the process as ps(1) shows it.
const NAME: &[u8] = b"uhyve-guest\0";

/// Limit of the address space (RLIMIT_AS): the memory's size times the first number, plus the second number
/// of bytes. This bounds the host's page tables, whose size is 1/512 of the mapped addresses, and more if the
/// mappings are far apart. [`MappingLimits`] bounds the distance between mappings.
const ADDRESS_SPACE: (u64, u64) = (16, 1 << 30);

/// Signals that are not blocked: the exceptions, and SIGTSTP, by which a terminal stops programs. All others
/// are blocked, so that a SIGTERM to the process group does not end the guest before the hypervisor handles
/// it. The guest's kernel unblocks the signals that it uses.
const NOT_BLOCKED: [libc::c_int; 6] =
    [libc::SIGILL, libc::SIGTRAP, libc::SIGBUS, libc::SIGFPE, libc::SIGSEGV, libc::SIGTSTP];

/// Flags of clone(2) for the CPUs' threads.
const CLONE_FLAGS: libc::c_int = libc::CLONE_VM
    | libc::CLONE_FS
    | libc::CLONE_FILES
    | libc::CLONE_SIGHAND
    | libc::CLONE_THREAD
    | libc::CLONE_SYSVSEM
    | libc::CLONE_PARENT_SETTID;

/// Flags of seccomp(2): the filter is for all threads, and has a listener.
const ALL_THREADS: libc::c_ulong = libc::SECCOMP_FILTER_FLAG_TSYNC | libc::SECCOMP_FILTER_FLAG_TSYNC_ESRCH;
const WITH_LISTENER: libc::c_ulong =
    libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;

/// State in which the process enters the kernel.
#[derive(Debug)]
pub(in super::super) struct BootstrapConfig {
    pub(in super::super) mappings: Vec<Mapping>,
    /// Virtual address of the array of [`SharedCpu`].
    pub(in super::super) cpu_array: u64,
    pub(in super::super) cpu_count: u32,
    /// Size of the VM's memory in bytes.
    pub(in super::super) memory_size: u64,
    /// Address ranges in which the kernel may map memory.
    pub(in super::super) windows: [Region; 2],
    /// Entry point of the boot CPU, and its argument.
    pub(in super::super) entry: u64,
    pub(in super::super) argument: u64,
    /// True if the seccomp filter reports hypercalls to tracers ([`super::super::traced`]). The process then
    /// waits for its tracers.
    pub(in super::super) is_traced: bool,
    /// True if the process is the first one of a PID namespace.
    pub(in super::super) has_pid_namespace: bool,
    /// Kinds of speculative execution that the process disables. The host must permit it to disable them.
    pub(in super::super) disabled_speculation: Vec<SpeculationFeature>,
}

/// Bootstrap program.
#[derive(Debug)]
pub(in super::super) struct BootstrapProgram {
    /// ELF file.
    pub(in super::super) file: Vec<u8>,
    /// Offset in the file at which the process's ID must be written.
    pub(in super::super) pid_offset: u64,
}

/// Builds the program. `listener` is the number that the descriptor of the filter's listener will have.
/// `has_ruleset` is true if the process has a [`RULESET_FD`].
pub(in super::super) fn build(
    config: &BootstrapConfig,
    listener: u32,
    has_ruleset: bool,
) -> BootstrapProgram {
    let mut elf = BootstrapElf::new();
    confine(&mut elf, config, has_ruleset);
    if !config.is_traced {
        // This denies other processes of the user access to memory and descriptors. A tracer needs that
        // access.
        elf.call(libc::SYS_prctl, [flag(libc::PR_SET_DUMPABLE), 0]);
    }
    for mapping in &config.mappings {
        map(&mut elf, mapping);
    }
    start_threads(&mut elf, config);
    let limits = MappingLimits { windows: config.windows, max_size: config.memory_size };
    let pid_offset = if config.is_traced {
        wait_for_tracers(&mut elf);
        let pid_offset = install(&mut elf, &Filter::new(&limits, None, HypercallAction::Trace), ALL_THREADS);
        elf.call(libc::SYS_close, [CONTROL_FD.into()]);
        pid_offset
    } else {
        let address = listener_message(&mut elf, listener);
        let message = ListenerMessage { address, listener };
        let filter = Filter::new(&limits, Some(message), HypercallAction::Notify);
        let pid_offset = install(&mut elf, &filter, ALL_THREADS | WITH_LISTENER);
        elf.call(libc::SYS_sendmsg, [CONTROL_FD.into(), address, 0]);
        elf.call(libc::SYS_close, [listener.into()]);
        elf.call(libc::SYS_close, [CONTROL_FD.into()]);
        // The hypervisor responds to this hypercall after all of its own threads are confined.
        elf.call(CALL.cast_signed(), []);
        pid_offset
    };
    BootstrapProgram { file: elf.finish(config.entry, config.argument), pid_offset }
}

/// Reports that all threads exist, and waits for a byte.
fn wait_for_tracers(elf: &mut BootstrapElf) {
    let byte = elf.data(&[0]);
    elf.call(libc::SYS_write, [CONTROL_FD.into(), byte, 1]);
    // The program has no writable memory, so it receives with an empty buffer, and the byte stays in the
    // socket.
    elf.call(libc::SYS_recvfrom, [CONTROL_FD.into()]);
}

/// Drops privileges and memory that the guest does not need. Threads that start later inherit the
/// restrictions.
fn confine(elf: &mut BootstrapElf, config: &BootstrapConfig, has_ruleset: bool) {
    elf.call(libc::SYS_prctl, [flag(libc::PR_SET_PDEATHSIG), flag(libc::SIGKILL)]);
    let name = elf.data(NAME);
    elf.call(libc::SYS_prctl, [flag(libc::PR_SET_NAME), name]);
    limit(elf, RLIMIT_CORE, sandbox::core_limit());
    // Only privileged processes can raise a hard limit.
    let addresses = config.memory_size.saturating_mul(ADDRESS_SPACE.0).saturating_add(ADDRESS_SPACE.1);
    let maximum = getrlimit(Resource::As).maximum.unwrap_or(u64::MAX);
    limit(elf, RLIMIT_AS, addresses.min(maximum));
    // Stack, vDSO, and all other memory that the host has mapped.
    elf.call(libc::SYS_munmap, [0, BASE]);
    let above = BASE + (1 << 20);
    elf.call(libc::SYS_munmap, [above, TASK_SIZE - above]);
    let signals = NOT_BLOCKED.iter().fold(u64::MAX, |set, signal| set & !(1 << (signal - 1)));
    let signals = elf.data(&signals.to_le_bytes());
    elf.call(libc::SYS_rt_sigprocmask, [flag(libc::SIG_SETMASK), signals, 0, 8]);
    elf.call(libc::SYS_prctl, [flag(libc::PR_SET_NO_NEW_PRIVS), 1]);
    // Since Linux 5.16 a seccomp filter does not disable speculation by itself.
    for &feature in &config.disabled_speculation {
        let value = SpeculationFeatureControl::FORCE_DISABLE.bits();
        elf.call(libc::SYS_prctl, [PR_SET_SPECULATION_CTRL.into(), feature as u64, value.into()]);
    }
    if has_ruleset {
        elf.call(libc::SYS_landlock_restrict_self, [RULESET_FD.into()]);
        elf.call(libc::SYS_close, [RULESET_FD.into()]);
    }
}

fn limit(elf: &mut BootstrapElf, resource: u32, value: u64) {
    let limits = elf.data(&words(&[value, value]));
    elf.call(libc::SYS_prlimit64, [0, resource.into(), limits]);
}

fn map(elf: &mut BootstrapElf, mapping: &Mapping) {
    let Mapping { address, size, offset, protection } = *mapping;
    let flags = flag(libc::MAP_SHARED | libc::MAP_FIXED);
    elf.call(libc::SYS_mmap, [address, size, flag(protection), flags, MEMORY.into(), offset]);
}

/// Starts a thread for each CPU except the boot CPU, and creates a timer for each CPU.
fn start_threads(elf: &mut BootstrapElf, config: &BootstrapConfig) {
    let cpu = |number: u32| config.cpu_array + u64::from(number) * size_of::<SharedCpu>() as u64;
    for number in 1..config.cpu_count {
        let thread = cpu(number) + offset_of!(SharedCpu, thread) as u64;
        elf.call(libc::SYS_clone, [flag(CLONE_FLAGS), 0, thread]);
    }
    for number in 0..config.cpu_count {
        let timer = cpu(number) + offset_of!(SharedCpu, timer) as u64;
        elf.call(libc::SYS_timer_create, [flag(libc::CLOCK_MONOTONIC), cpu(number), timer]);
    }
}

/// Installs the filter. Returns the offset in the file at which the process's ID must be written.
fn install(elf: &mut BootstrapElf, filter: &Filter, flags: libc::c_ulong) -> u64 {
    let instructions = elf.data(&filter.bytes);
    // `struct sock_fprog`.
    let [length, instructions_word] = [filter.length.into(), instructions];
    let description = elf.data(&words(&[length, instructions_word]));
    elf.call(libc::SYS_seccomp, [libc::SECCOMP_SET_MODE_FILTER.into(), flags, description]);
    file_offset(instructions) + filter.pid_offset as u64
}

/// Builds the message (`struct msghdr`, cmsg(3)) that carries one byte and the listener's descriptor, and
/// returns its address.
fn listener_message(elf: &mut BootstrapElf, listener: u32) -> u64 {
    let byte = elf.data(&[0]);
    let bytes = elf.data(&words(&[byte, 1]));
    let header =
        u64::from(libc::SOL_SOCKET.unsigned_abs()) | u64::from(libc::SCM_RIGHTS.unsigned_abs()) << 32;
    let control = elf.data(&words(&[20, header, listener.into()]));
    elf.data(&words(&[0, 0, bytes, 1, control, 24, 0]))
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Converts a flag, which is never negative, into an argument.
fn flag(flag: libc::c_int) -> u64 {
    flag.unsigned_abs().into()
}

#[cfg(test)]
mod tests {
    use super::{BootstrapConfig, PR_SET_SPECULATION_CTRL, build, words};
    use crate::engine::process::bootstrap::elf::ENTRY_SIZE;
    use hermit_interface::process::ADDRESSES;
    use rustix::process::SpeculationFeature as Feature;

    /// Returns the arguments of the calls by which a bootstrap program disables these features.
    fn speculation_calls(features: &[Feature]) -> Vec<[u64; 3]> {
        let config = BootstrapConfig {
            mappings: Vec::new(),
            cpu_array: ADDRESSES.start,
            cpu_count: 1,
            memory_size: 1 << 20,
            windows: [ADDRESSES; 2],
            entry: 0,
            argument: 0,
            is_traced: false,
            has_pid_namespace: false,
            disabled_speculation: features.to_vec(),
        };
        let file = build(&config, 1, false).file;
        let is_control = words(&[libc::SYS_prctl.cast_unsigned(), PR_SET_SPECULATION_CTRL.into()]);
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
        let (_, list) = file.split_at(file.len() % ENTRY_SIZE);
        let calls = list.chunks(ENTRY_SIZE).filter(|entry| entry.starts_with(&is_control));
        calls.map(|entry| [word(&entry[16..24]), word(&entry[24..32]), word(&entry[32..40])]).collect()
    }

    #[test]
    fn bootstrap_disables_the_given_kinds_of_speculation_and_no_other() {
        const FORCE_DISABLE: u64 = 8;
        assert_eq!(speculation_calls(&[]), [[0; 3]; 0]);
        assert_eq!(speculation_calls(&[Feature::IndirectBranchSpeculation]), [[1, FORCE_DISABLE, 0]]);
        let both = [Feature::SpeculativeStoreBypass, Feature::IndirectBranchSpeculation];
        assert_eq!(speculation_calls(&both), [[0, FORCE_DISABLE, 0], [1, FORCE_DISABLE, 0]]);
    }
}
