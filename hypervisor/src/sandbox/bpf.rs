//! Compiler of seccomp filters.
//!
//! A seccomp filter is a program for Linux's classic BPF machine: it loads words of `struct seccomp_data`,
//! compares them, and returns an action. The compiler's input is a rule for each system call: an action, or
//! alternative lists of conditions on its arguments. A condition compares 64 bits, but the machine has 32-bit
//! words, so each condition becomes several instructions. The offset of a conditional jump has only 8 bits,
//! so long jumps are unconditional.
//!
//! A filter finds the rule of a system call by binary search for the call's number. When a filter is
//! installed, Linux interprets it once for each system call number (`seccomp_cache_prepare`). With a linear
//! search, this would take most of the installation time.

#[cfg(test)]
pub(crate) mod interpreter;

use std::collections::BTreeMap;
use std::mem::offset_of;

use libc::{SECCOMP_RET_ALLOW, SECCOMP_RET_KILL_PROCESS, seccomp_data};
use seccompiler::sock_filter;

/// `AUDIT_ARCH_X86_64` (linux/audit.h).
pub(crate) const X86_64: u32 = 0xc000_003e;

/// BPF opcodes (linux/bpf_common.h): `BPF_LD | BPF_W | BPF_ABS`, `BPF_ALU | BPF_AND | BPF_K`, `BPF_JMP |
/// BPF_JA`, the conditional jumps `BPF_JEQ`, `BPF_JGT` and `BPF_JGE` with `BPF_K`, and `BPF_RET | BPF_K`.
const LOAD: u16 = 0x20;
const AND: u16 = 0x54;
const JUMP: u16 = 0x05;
pub(crate) const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_GREATER: u16 = 0x25;
const JUMP_IF_GREATER_OR_EQUAL: u16 = 0x35;
const RETURN: u16 = 0x06;

/// Comparison of an argument of a system call with a value, both unsigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    /// Equal in the bits of the mask; other bits are ignored.
    Masked(u64),
    /// Equal.
    Equal,
    /// Greater or equal.
    AtLeast,
    /// Less or equal.
    AtMost,
    /// Less.
    Below,
}

/// Bits of an argument that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    /// The lower 32 bits: arguments of type `int`.
    Lower32,
    /// All 64 bits.
    All64,
}

/// Condition on an argument: its index, the bits that are compared, the comparison, and the value.
pub(crate) type Condition = (u8, Width, Operator, u64);

/// Decision of a filter about a system call.
#[derive(Clone, Debug)]
pub(crate) enum CallRule {
    /// Returns this action (seccomp(2)).
    Return(u32),
    /// Allows the call if all conditions of one of the lists hold. Without lists, the call is always allowed.
    AllowIf(Vec<Vec<Condition>>),
}

/// Compiles a filter for the system calls of the x86-64 ABI. The filter returns the action `otherwise` for a
/// call without a rule, and for a call for which no list of conditions holds. A call through another ABI
/// (i386, x32) kills the process, because its numbers have other meanings.
pub(crate) fn compile(rules: &BTreeMap<u32, CallRule>, otherwise: u32) -> Vec<sock_filter> {
    let mut code = vec![
        load(offset_of!(seccomp_data, arch)),
        instruction(JUMP_IF_EQUAL, 1, 0, X86_64),
        instruction(RETURN, 0, 0, SECCOMP_RET_KILL_PROCESS),
        load(offset_of!(seccomp_data, nr)),
    ];
    let rules: Vec<_> = rules.iter().collect();
    search(&rules, otherwise, &mut code);
    code
}

const fn instruction(code: u16, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

/// Loads a word of `struct seccomp_data`.
fn load(offset: usize) -> sock_filter {
    instruction(LOAD, 0, 0, u32::try_from(offset).unwrap_or(u32::MAX))
}

/// Appends a binary search for the system call number, which is already loaded. `rules` are sorted by number.
fn search(rules: &[(&u32, &CallRule)], otherwise: u32, code: &mut Vec<sock_filter>) {
    match rules {
        [] => code.push(instruction(RETURN, 0, 0, otherwise)),
        [(number, rule)] => {
            code.push(instruction(JUMP_IF_EQUAL, 1, 0, **number));
            code.push(instruction(RETURN, 0, 0, otherwise));
            decide(rule, otherwise, code);
        }
        _ => {
            let (lower, upper) = rules.split_at(rules.len() / 2);
            let mut lower_code = Vec::new();
            search(lower, otherwise, &mut lower_code);
            let first = upper.first().map_or(u32::MAX, |(number, _)| **number);
            // The offset of a conditional jump has 8 bits only.
            code.push(instruction(JUMP_IF_GREATER_OR_EQUAL, 0, 1, first));
            code.push(instruction(JUMP, 0, 0, u32::try_from(lower_code.len()).unwrap_or(u32::MAX)));
            code.append(&mut lower_code);
            search(upper, otherwise, code);
        }
    }
}

/// Appends the decision about a call whose number was found.
fn decide(rule: &CallRule, otherwise: u32, code: &mut Vec<sock_filter>) {
    let lists = match rule {
        CallRule::Return(action) => return code.push(instruction(RETURN, 0, 0, *action)),
        CallRule::AllowIf(lists) => lists,
    };
    for conditions in lists {
        let checks: Vec<_> = conditions.iter().map(|condition| check(*condition)).collect();
        let mut left: usize = checks.iter().map(Vec::len).sum();
        for mut check in checks {
            left -= check.len();
            // The next list begins after the remaining checks and the return.
            let skipped = u8::try_from(left + 1).expect("a list has few conditions");
            let length = check.len();
            for (index, instruction) in check.iter_mut().enumerate() {
                let behind = u8::try_from(length - 1 - index).unwrap_or(u8::MAX);
                resolve(instruction, behind, skipped);
            }
            code.append(&mut check);
        }
        code.push(instruction(RETURN, 0, 0, SECCOMP_RET_ALLOW));
    }
    let end = if lists.is_empty() { SECCOMP_RET_ALLOW } else { otherwise };
    code.push(instruction(RETURN, 0, 0, end));
}

/// Placeholders in the jumps of a [`check`]. `HOLDS` jumps to the end of the check, because its condition
/// holds. `FAILS` jumps to the next list of conditions.
const HOLDS: u8 = u8::MAX;
const FAILS: u8 = u8::MAX - 1;

/// Replaces the placeholders of an instruction by jump offsets. The instruction is followed by `behind` more
/// instructions of its check. The next list begins `skipped` instructions after the check.
fn resolve(instruction: &mut sock_filter, behind: u8, skipped: u8) {
    for offset in [&mut instruction.jt, &mut instruction.jf] {
        match *offset {
            HOLDS => *offset = behind,
            FAILS => *offset = behind.checked_add(skipped).expect("a list has few conditions"),
            _ => {}
        }
    }
}

/// Compiles a condition, with [`HOLDS`] and [`FAILS`] as offsets of jumps.
fn check((argument, width, operator, value): Condition) -> Vec<sock_filter> {
    let lower_offset = offset_of!(seccomp_data, args) + usize::from(argument) * size_of::<u64>();
    // x86-64 is little-endian.
    let upper_offset = lower_offset + size_of::<u32>();
    let (upper, lower) = halves(value);
    let loads = || [load(upper_offset), load(lower_offset)];
    let code = match operator {
        Operator::Masked(mask) => {
            let (upper_mask, lower_mask) = halves(mask);
            let equal = |load, mask, value| {
                [load, instruction(AND, 0, 0, mask), instruction(JUMP_IF_EQUAL, 0, FAILS, value & mask)]
            };
            let [load_upper, load_lower] = loads();
            [equal(load_upper, upper_mask, upper), equal(load_lower, lower_mask, lower)].concat()
        }
        Operator::Equal => vec![
            load(upper_offset),
            instruction(JUMP_IF_EQUAL, 0, FAILS, upper),
            load(lower_offset),
            instruction(JUMP_IF_EQUAL, 0, FAILS, lower),
        ],
        Operator::AtLeast => {
            let last = instruction(JUMP_IF_GREATER_OR_EQUAL, 0, FAILS, lower);
            ordered(loads(), upper, [HOLDS, FAILS], last)
        }
        Operator::AtMost => {
            let last = instruction(JUMP_IF_GREATER, FAILS, 0, lower);
            ordered(loads(), upper, [FAILS, HOLDS], last)
        }
        Operator::Below => {
            let last = instruction(JUMP_IF_GREATER_OR_EQUAL, FAILS, 0, lower);
            ordered(loads(), upper, [FAILS, HOLDS], last)
        }
    };
    match width {
        Width::All64 => code,
        // Keeps only the second part of the code: it loads the lower half and compares it.
        Width::Lower32 => {
            let start = code.iter().position(|found| *found == load(lower_offset)).unwrap_or_default();
            code.into_iter().skip(start).collect()
        }
    }
}

/// Compares the upper half of the argument with that of the value. If they differ, this decides. If they are
/// equal, `last` compares the lower half.
fn ordered(
    [load_upper, load_lower]: [sock_filter; 2],
    upper: u32,
    [if_greater, if_less]: [u8; 2],
    last: sock_filter,
) -> Vec<sock_filter> {
    vec![
        load_upper,
        instruction(JUMP_IF_GREATER, if_greater, 0, upper),
        instruction(JUMP_IF_EQUAL, 0, if_less, upper),
        load_lower,
        last,
    ]
}

/// Returns the upper and the lower half of a 64-bit value.
const fn halves(value: u64) -> (u32, u32) {
    let [a, b, c, d, e, f, g, h] = value.to_be_bytes();
    (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]))
}

#[cfg(test)]
mod tests;
