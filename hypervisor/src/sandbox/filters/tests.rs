//! The filters of all roles allow the calls of their lists, and no others.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::RawFd;

use rustix::thread::gettid;
use syscalls::Sysno;
use vmm_sys_util::signal::SIGRTMIN;

use super::calls::ArgumentCheck;
use super::{Role, Rules, calls, compile};
use crate::sandbox::bpf::X86_64;
use crate::sandbox::bpf::interpreter::{I386, X32, verdict};

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

/// Descriptors that were open before: adjacent ones, and some with others between them.
const OPEN_FILES: [RawFd; 6] = [0, 1, 2, 5, 7, 300];

/// Rules of four VMs: KVM with a debugger; the process engine; the process engine with a debugger, a tap and
/// limits; the process engine with sockets.
fn all_rules() -> [Rules; 4] {
    let kinds = [
        (true, false, None, false),
        (false, true, None, false),
        (true, true, Some(9), false),
        (false, true, None, true),
    ];
    kinds.map(|(debugger, process, tap, sockets)| {
        let rate_limits = tap.is_some();
        let (memory, open_files) = (process.then_some(11), OPEN_FILES.to_vec());
        Rules { debugger, process, tap, sockets, memory, rate_limits, open_files, ..Rules::default() }
    })
}

/// Returns every combination of a role and rules.
fn all() -> impl Iterator<Item = (Role, Rules)> {
    ROLES.into_iter().flat_map(|role| all_rules().map(|rules| (role, rules)))
}

#[test]
fn call_is_allowed_always_or_with_conditions_but_not_both() {
    for (role, rules) in all() {
        let mut known = BTreeMap::new();
        for (number, lists) in calls::of(role, &rules) {
            let is_conditional = *known.entry(number).or_insert(!lists.is_empty());
            assert_eq!(is_conditional, !lists.is_empty(), "{role}: {number}");
        }
    }
}

#[test]
fn every_filter_has_50_to_500_instructions() {
    for (role, rules) in all() {
        let length = compile(role, &rules).len();
        assert!((50..500).contains(&length), "{role}: {length} instructions");
    }
}

/// Names of the system calls of each role in the table of `docs/sandbox.md`; the role `all` has those of
/// every role.
fn documented() -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    let is_call: BTreeSet<_> = (0..1024).filter_map(Sysno::new).map(|call| call.name()).collect();
    let document = include_str!("../../../../docs/sandbox.md");
    let table = document.split_once("| role |").unwrap().1.split("\n\n").next().unwrap();
    let (mut role, mut documented) = ("", BTreeMap::<_, BTreeSet<_>>::new());
    for row in table.lines().skip(2) {
        let columns: Vec<_> = row.split(" | ").collect();
        let name = columns[0].trim_matches(['|', ' ', '`']);
        role = if name.is_empty() { role } else { name };
        let quoted = columns[1].split('`').skip(1).step_by(2);
        let words = quoted.flat_map(|text| text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'));
        documented.entry(role).or_default().extend(words.filter(|word| is_call.contains(word)));
    }
    documented
}

#[test]
fn documented_calls_of_each_role_are_the_allowed_ones() {
    let documented = documented();
    for role in ROLES {
        let all_rules = all_rules();
        let allowed = all_rules.iter().flat_map(|rules| calls::of(role, rules));
        let allowed: BTreeSet<_> =
            allowed.map(|(number, _)| Sysno::new(usize::try_from(number).unwrap()).unwrap().name()).collect();
        let documented: BTreeSet<_> = documented["all"].union(&documented[role.name()]).copied().collect();
        assert_eq!(documented, allowed, "{role}");
    }
}

/// Numbers of all system calls, by both ABIs of 64-bit programs, and some that no kernel has.
fn numbers() -> impl Iterator<Item = u32> {
    (0..1024).chain((0..1024).map(|number| X32 | number)).chain([1 << 16, 1 << 20, 1 << 31, u32::MAX])
}

#[test]
fn unlisted_calls_of_every_role_are_trapped() {
    for (role, rules) in all() {
        let filter = compile(role, &rules);
        let listed: BTreeSet<_> = calls::of(role, &rules).map(|(number, _)| number).collect();
        for number in numbers().filter(|number| !listed.contains(&(*number).into())) {
            for arguments in [[0; 6], [u64::MAX; 6]] {
                let found = verdict(&filter, X86_64, number, arguments);
                assert_eq!(found, libc::SECCOMP_RET_TRAP, "{role}: {number}");
            }
        }
        for number in numbers() {
            assert_eq!(verdict(&filter, I386, number, [0; 6]), libc::SECCOMP_RET_KILL_PROCESS, "{role}");
        }
    }
}

/// Index of the argument that is checked, a value that passes, and the bits that are compared.
fn meaning(check: ArgumentCheck, rules: &Rules) -> (u8, u32, u64) {
    let all = u32::MAX.into();
    match check {
        ArgumentCheck::Is(index, value) => (index, value.cast_unsigned(), all),
        ArgumentCheck::Request(index, request) => (index, request, all),
        ArgumentCheck::Ptrace(request) => (0, request, all),
        ArgumentCheck::Within(index, bits) => (index, 0, (!bits.cast_unsigned()).into()),
        ArgumentCheck::IsBut { argument, value, free } => {
            (argument, value.cast_unsigned(), (!free.cast_unsigned()).into())
        }
        ArgumentCheck::OwnProcess(index) => (index, std::process::id(), all),
        ArgumentCheck::OwnThread(index) => (index, gettid().as_raw_pid().cast_unsigned(), all),
        ArgumentCheck::VcpuSignal(index) => (index, SIGRTMIN().cast_unsigned(), all),
        ArgumentCheck::Memory(index) => (index, rules.memory.unwrap_or(-1).cast_unsigned(), all),
        ArgumentCheck::Tap(index) => (index, rules.tap.unwrap_or(-1).cast_unsigned(), all),
        ArgumentCheck::Null(index) => (index, 0, u64::MAX),
        // One bit from 4 to 7 are descriptors of both kinds.
        ArgumentCheck::OpenedLater(index) => (index, 4, all),
    }
}

/// Returns true if all conditions of one of the lists hold.
fn is_allowed(lists: &[&[ArgumentCheck]], rules: &Rules, arguments: [u64; 6]) -> bool {
    let holds = |check: &ArgumentCheck| {
        let (index, value, compared) = meaning(*check, rules);
        let argument = arguments[usize::from(index)];
        if let ArgumentCheck::OpenedLater(_) = check {
            return !OPEN_FILES.iter().any(|file| argument & compared == u64::from(file.cast_unsigned()));
        }
        argument & compared == u64::from(value) & compared
    };
    lists.iter().any(|list| list.iter().all(holds))
}

/// Returns arguments that a list of conditions allows, and arguments that differ from these in one compared
/// bit.
fn attacks(list: &[ArgumentCheck], rules: &Rules) -> Vec<[u64; 6]> {
    let meanings: Vec<_> = list.iter().map(|check| meaning(*check, rules)).collect();
    let mut good = [0; 6];
    for &(index, value, _) in &meanings {
        good[usize::from(index)] = value.into();
    }
    let mut attacks = vec![good];
    for (index, _, compared) in meanings {
        for bit in (0..64).map(|bit| 1_u64 << bit).filter(|bit| compared & bit != 0) {
            let mut bad = good;
            bad[usize::from(index)] ^= bit;
            attacks.push(bad);
        }
    }
    attacks
}

/// A descriptor beyond the largest one, negative ones, and those below and above each that was open before.
#[test]
fn files_thread_changes_only_what_was_opened_later() {
    let rules = all_rules()[1].clone();
    let filter = compile(Role::Files, &rules);
    let around = OPEN_FILES.iter().flat_map(|file| [file - 1, *file, file + 1]);
    for descriptor in around.chain([-1, RawFd::MIN, RawFd::MAX]) {
        let is_allowed = !OPEN_FILES.contains(&descriptor);
        let expected = if is_allowed { libc::SECCOMP_RET_ALLOW } else { libc::SECCOMP_RET_TRAP };
        let argument = u64::from(descriptor.cast_unsigned());
        for number in [libc::SYS_fchmod, libc::SYS_ftruncate, libc::SYS_fallocate, libc::SYS_pwritev] {
            let found = verdict(&filter, X86_64, u32::try_from(number).unwrap(), [argument, 0, 0, 0, 0, 0]);
            assert_eq!(found, expected, "{number}: {descriptor}");
        }
    }
}

/// Calls that change a file, its attributes or a directory.
const CHANGES: [libc::c_long; 21] = [
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_utimensat,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_writev,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_mkdirat,
    libc::SYS_mknodat,
    libc::SYS_symlinkat,
    libc::SYS_linkat,
    libc::SYS_unlinkat,
    libc::SYS_renameat2,
    libc::SYS_fchownat,
    libc::SYS_fchown,
    libc::SYS_fsetxattr,
    libc::SYS_chmod,
    libc::SYS_truncate,
];

#[test]
fn thread_of_a_read_only_mount_has_no_call_that_changes_a_file() {
    for rules in all_rules() {
        let filter = compile(Role::ReadOnlyFiles, &rules);
        let verdict = |number: libc::c_long, arguments| {
            verdict(&filter, X86_64, u32::try_from(number).unwrap(), arguments)
        };
        for number in CHANGES {
            assert_eq!(verdict(number, [400, 0, 0, 0, 0, 0]), libc::SECCOMP_RET_TRAP, "{number}");
        }
        for flags in [libc::O_WRONLY, libc::O_RDWR, libc::O_TRUNC, libc::O_CREAT] {
            let arguments = [400, 0, u64::from(flags.cast_unsigned()), 0, 0, 0];
            assert_eq!(verdict(libc::SYS_openat, arguments), libc::SECCOMP_RET_TRAP, "{flags:o}");
        }
    }
}

/// Asserts that the filter allows the calls that the lists of conditions allow, and no other calls with
/// similar arguments.
fn check_call(role: Role, rules: &Rules, number: i64, lists: &[&[ArgumentCheck]]) {
    let filter = compile(role, rules);
    for arguments in lists.iter().flat_map(|list| attacks(list, rules)) {
        let is_allowed = is_allowed(lists, rules, arguments);
        let expected = if is_allowed { libc::SECCOMP_RET_ALLOW } else { libc::SECCOMP_RET_TRAP };
        let found = verdict(&filter, X86_64, u32::try_from(number).unwrap(), arguments);
        assert_eq!(found, expected, "{role}: {number}: {arguments:#x?}");
    }
}

#[test]
fn every_bit_of_a_checked_argument_is_compared() {
    for (role, rules) in all() {
        let mut by_number = BTreeMap::<_, Vec<&[ArgumentCheck]>>::new();
        for (number, lists) in calls::of(role, &rules) {
            by_number.entry(number).or_default().extend(lists);
        }
        // Without a list, a call is allowed with any arguments.
        by_number.retain(|_, lists| !lists.is_empty());
        by_number.iter().for_each(|(number, lists)| check_call(role, &rules, *number, lists));
    }
}
