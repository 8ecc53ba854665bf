//! Interpreter of seccomp filters for tests. It decides like the host's kernel.

use seccompiler::sock_filter;

/// `AUDIT_ARCH_I386` (linux/audit.h).
pub(crate) const I386: u32 = 0x4000_0003;

/// Flag of the numbers of system calls of the x32 ABI (asm/unistd.h: `__X32_SYSCALL_BIT`).
pub(crate) const X32: u32 = 1 << 30;

/// Interprets a filter, and returns its verdict.
pub(crate) fn verdict(filter: &[sock_filter], architecture: u32, number: u32, arguments: [u64; 6]) -> u32 {
    interpret(filter, architecture, number, arguments).0
}

/// Interprets a filter (linux/bpf_common.h), and returns its verdict and the number of executed instructions.
pub(crate) fn interpret(
    filter: &[sock_filter],
    architecture: u32,
    number: u32,
    arguments: [u64; 6],
) -> (u32, usize) {
    // `struct seccomp_data`. The instruction pointer is 0.
    let mut words = [0; 16];
    (words[0], words[1]) = (number, architecture);
    for (index, argument) in (4..).step_by(2).zip(arguments) {
        [words[index], words[index + 1]] =
            [argument, argument >> 32].map(|word| u32::try_from(word & 0xffff_ffff).unwrap());
    }
    let (mut next, mut value) = (0, 0_u32);
    for steps in 1.. {
        let &sock_filter { code, jt, jf, k: constant } = &filter[next];
        next += 1;
        let mut jump = |condition: bool| next += usize::from(if condition { jt } else { jf });
        match code {
            0x20 => value = words[usize::try_from(constant).unwrap() / 4],
            0x54 => value &= constant,
            0x05 => next += usize::try_from(constant).unwrap(),
            0x15 => jump(value == constant),
            0x25 => jump(value > constant),
            0x35 => jump(value >= constant),
            0x06 => return (constant, steps),
            _ => panic!("instruction {code:#x}"),
        }
    }
    unreachable!("jumps lead forward")
}
