//! Verdicts of the filter.

use hermit_interface::boot_info::Region;
use hermit_interface::machine::LINES;
use hermit_interface::process::{ADDRESSES, CALL, INTERRUPT, queue_eventfd};
use libc::{c_int, c_long};
use proptest::prelude::*;

use super::{Filter, HypercallAction, ListenerMessage, MappingLimits, PID_PLACEHOLDER};
use crate::sandbox::bpf::X86_64;
use crate::sandbox::bpf::interpreter::{self, I386, X32};

const MESSAGE: u64 = 0x40_1234;
const LISTENER: u32 = 9;
const PROCESS: u32 = 4711;

/// Direct map and own mappings of a kernel. The borders differ in the high and in the low half of the
/// addresses.
const WINDOWS: [Region; 2] = [
    Region { start: 70 << 39, size: 64 << 20 },
    Region { start: (140 << 39) + 0x1234_5000, size: (7 << 30) + 0x5000 },
];

/// Maximum size of a mapping.
const MAX_SIZE: u64 = 64 << 20;

const LIMITS: MappingLimits = MappingLimits { windows: WINDOWS, max_size: MAX_SIZE };

fn filter() -> Filter {
    let message = ListenerMessage { address: MESSAGE, listener: LISTENER };
    let mut filter = Filter::new(&LIMITS, Some(message), HypercallAction::Notify);
    assert_eq!(filter.bytes[filter.pid_offset..][..4], PID_PLACEHOLDER.to_le_bytes());
    filter.bytes[filter.pid_offset..][..4].copy_from_slice(&PROCESS.to_le_bytes());
    filter
}

fn verdict(filter: &Filter, architecture: u32, number: u32, arguments: [u64; 6]) -> u32 {
    let (instructions, _) = filter.bytes.as_chunks::<8>();
    let instructions = instructions.iter().map(|&[code, more, jt, jf, k @ ..]| seccompiler::sock_filter {
        code: u16::from_le_bytes([code, more]),
        jt,
        jf,
        k: u32::from_le_bytes(k),
    });
    interpreter::verdict(&instructions.collect::<Vec<_>>(), architecture, number, arguments)
}

#[track_caller]
fn check(number: c_long, arguments: &[u64], is_allowed: bool) {
    let mut all = [0; 6];
    all[..arguments.len()].copy_from_slice(arguments);
    let expected = if is_allowed { libc::SECCOMP_RET_ALLOW } else { libc::SECCOMP_RET_KILL_PROCESS };
    let found = verdict(&filter(), X86_64, u32::try_from(number).unwrap(), all);
    assert_eq!(found, expected, "{number}: {arguments:#x?}");
}

/// Calls that are allowed with some arguments or all.
const LISTED: [c_long; 14] = [
    libc::SYS_close,
    libc::SYS_futex,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_munmap,
    libc::SYS_restart_syscall,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_yield,
    libc::SYS_sendmsg,
    libc::SYS_sigaltstack,
    libc::SYS_tgkill,
    libc::SYS_timer_settime,
];

/// The verdict is to kill the process, so the hypervisor cannot let the guest make such a call.
#[test]
fn unlisted_calls_kill_the_process() {
    for action in [HypercallAction::Notify, HypercallAction::Trace] {
        let filter = Filter::new(&LIMITS, None, action);
        for number in (0..0x8000).chain((0..1024).map(|number| X32 | number)).chain([1 << 20, u32::MAX]) {
            let is_listed = LISTED.contains(&number.into()) || i64::from(number) == libc::SYS_write;
            if is_listed || u64::from(number) == CALL {
                continue;
            }
            let found = verdict(&filter, X86_64, number, [0; 6]);
            assert_eq!(found, libc::SECCOMP_RET_KILL_PROCESS, "{number}");
        }
    }
    for number in
        [libc::SYS_rt_sigreturn, libc::SYS_sigaltstack, libc::SYS_timer_settime, libc::SYS_sched_yield]
    {
        check(number, &[u64::MAX; 6], true);
    }
}

#[test]
fn hypercall_is_reported_to_listener_or_tracer() {
    let call = u32::try_from(CALL).unwrap();
    for arguments in [[0; 6], [u64::MAX; 6]] {
        assert_eq!(verdict(&filter(), X86_64, call, arguments), libc::SECCOMP_RET_USER_NOTIF);
        let traced = Filter::new(&LIMITS, None, HypercallAction::Trace);
        assert_eq!(verdict(&traced, X86_64, call, arguments), libc::SECCOMP_RET_TRACE);
        for filter in [filter(), traced] {
            assert_eq!(verdict(&filter, I386, call, arguments), libc::SECCOMP_RET_KILL_PROCESS);
        }
    }
}

#[test]
fn only_bootstrap_descriptors_can_be_closed() {
    for (descriptor, is_allowed) in
        [(129, true), (LISTENER.into(), true), (0, false), (1, false), (130, false)]
    {
        check(libc::SYS_close, &[descriptor], is_allowed);
    }
    let traced = Filter::new(&LIMITS, None, HypercallAction::Trace);
    let close = u32::try_from(libc::SYS_close).unwrap();
    let listener = [u64::from(LISTENER), 0, 0, 0, 0, 0];
    assert_eq!(verdict(&traced, X86_64, close, listener), libc::SECCOMP_RET_KILL_PROCESS);
    let sendmsg = u32::try_from(libc::SYS_sendmsg).unwrap();
    let message = [129, MESSAGE, 0, 0, 0, 0];
    assert_eq!(verdict(&traced, X86_64, sendmsg, message), libc::SECCOMP_RET_KILL_PROCESS);
}

#[test]
fn foreign_architecture_kills_process() {
    for number in [1, 15, 90] {
        assert_eq!(verdict(&filter(), I386, number, [0; 6]), libc::SECCOMP_RET_KILL_PROCESS);
    }
}

#[test]
fn sendmsg_allows_only_the_listener_message() {
    check(libc::SYS_sendmsg, &[129, MESSAGE, 0], true);
    for arguments in
        [[129, MESSAGE + 8, 0], [128, MESSAGE, 0], [129, MESSAGE, 1], [129, MESSAGE | 1 << 32, 0]]
    {
        check(libc::SYS_sendmsg, &arguments, false);
    }
}

fn flags(flags: c_int) -> u64 {
    flags.cast_unsigned().into()
}

#[test]
fn mappings_are_guest_memory_and_never_writable_and_executable() {
    let map = flags(libc::MAP_SHARED | libc::MAP_FIXED);
    for protection in 0..16 {
        let is_allowed = [0, 1, 3, 5].contains(&protection);
        for window in WINDOWS {
            check(libc::SYS_mmap, &[window.start, 0x1000, protection, map, 0, 0], is_allowed);
        }
        for address in [ADDRESSES.start, ADDRESSES.end() - 0x1000] {
            check(libc::SYS_mprotect, &[address, 0x1000, protection], is_allowed);
            check(libc::SYS_munmap, &[address, protection], true);
        }
    }
    let start = WINDOWS[1].start;
    // PROT_GROWSDOWN, and bits that are not defined.
    for protection in [1 | 0x0100_0000, 1 | 1 << 32, 3 | 1 << 63] {
        check(libc::SYS_mprotect, &[start, 0x1000, protection], false);
        check(libc::SYS_mmap, &[start, 0x1000, protection, map, 0, 0], false);
    }
    check(libc::SYS_mmap, &[start, 0x1000, 3, map | flags(libc::MAP_POPULATE), 0, 0], true);
    for descriptor in [1, u64::MAX, 1 << 32] {
        check(libc::SYS_mmap, &[start, 0x1000, 3, map, descriptor, 0], false);
    }
}

/// The windows bound the host's page tables.
#[test]
fn mappings_start_in_a_window_and_are_no_larger_than_memory() {
    let map = flags(libc::MAP_SHARED | libc::MAP_FIXED);
    for window in WINDOWS {
        let (first, last) = (window.start, window.end() - 0x1000);
        for (address, is_allowed) in [
            (first, true),
            (last, true),
            (first - 0x1000, false),
            (window.end(), false),
            // The same low or high half as an address inside.
            (first & 0xffff_ffff, false),
            (first + (1 << 40), false),
            (first - (1 << 32), false),
            (last + (1 << 33), false),
            (last | 1 << 63, false),
        ] {
            check(libc::SYS_mmap, &[address, 0x1000, 3, map, 0, 0], is_allowed);
            check(libc::SYS_mmap, &[address, MAX_SIZE, 3, map, 0, 0], is_allowed);
        }
        for size in [MAX_SIZE + 1, 1 << 32 | 0x1000, u64::MAX] {
            check(libc::SYS_mmap, &[first, size, 3, map, 0, 0], false);
        }
    }
    for address in [0, 0x1000, 0x40_0000, ADDRESSES.start, ADDRESSES.end() - 0x1000, u64::MAX] {
        check(libc::SYS_mmap, &[address, 0x1000, 3, map, 0, 0], false);
    }
}

#[test]
fn tgkill_allows_only_interrupts_to_own_process() {
    check(libc::SYS_tgkill, &[PROCESS.into(), 1, INTERRUPT.into()], true);
    check(libc::SYS_tgkill, &[u64::from(PROCESS) + 1, 1, INTERRUPT.into()], false);
    check(libc::SYS_tgkill, &[PROCESS.into(), 1, u64::from(INTERRUPT) + 1], false);
    check(libc::SYS_kill, &[PROCESS.into(), INTERRUPT.into()], false);
}

#[test]
fn filter_has_100_to_400_instructions() {
    let filter = filter();
    assert_eq!(filter.bytes.len(), usize::from(filter.length) * 8);
    assert!((100..400).contains(&filter.length), "{}", filter.length);
}

/// Any address, or one near a window.
fn address() -> impl Strategy<Value = u64> {
    let near = |window: Region| window.start - window.size..window.end() + window.size;
    prop_oneof![any::<u64>(), near(WINDOWS[0]), near(WINDOWS[1])]
}

proptest! {
    #[test]
    fn mmap_allows_only_the_contract(
        address in address(),
        size in 1..2 * MAX_SIZE,
        protection in 0_u64..8,
        given in 0..1 << 20,
        descriptor in 0_u64..3,
    ) {
        let allowed_flags = flags(given & !libc::MAP_POPULATE) == flags(libc::MAP_SHARED | libc::MAP_FIXED);
        let is_inside = WINDOWS.iter().any(|window| (window.start..window.end()).contains(&address));
        let is_memory = descriptor == 0 && size <= MAX_SIZE;
        let is_allowed = is_inside && is_memory && [0, 1, 3, 5].contains(&protection) && allowed_flags;
        check(libc::SYS_mmap, &[address, size, protection, flags(given), descriptor, 0], is_allowed);
        let flags = flags(libc::MAP_SHARED | libc::MAP_FIXED);
        check(libc::SYS_mmap, &[address, 0x1000, 3, flags, 0, 0], is_inside);
    }

    #[test]
    fn write_allows_only_eight_bytes_to_queue_events(descriptor in 0_u64..300, size in 7_u64..10) {
        let is_kick = (1..u64::from(queue_eventfd(LINES, 0))).contains(&descriptor);
        check(libc::SYS_write, &[descriptor, 0, size], is_kick && size == 8);
    }

    #[test]
    fn futex_allows_only_wait_and_wake(operation in 0_u64..600) {
        check(libc::SYS_futex, &[0, operation], operation < 2);
    }
}
