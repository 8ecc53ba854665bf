//! What a system call of the guest means.

use hermit_interface::process::{CALL, OUT, OUT_SIZE, READ, WRITE};
use libc::seccomp_data;
use syscalls::Sysno;

/// What a guest wants from this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// Reads so many bytes of device registers.
    Read { address: u64, size: usize },
    /// Writes so many of the bytes to device registers.
    Write { address: u64, size: usize, bytes: [u8; 8] },
    /// Writes so many of the bytes to a port.
    Out { port: u16, size: usize, bytes: [u8; OUT_SIZE] },
    /// No such request.
    Invalid,
}

impl Request {
    /// None if it is none at all, but another system call.
    pub(super) fn new(call: &seccomp_data) -> Option<Self> {
        (u64::try_from(call.nr) == Ok(CALL)).then(|| Self::decode(&call.args).unwrap_or(Self::Invalid))
    }

    fn decode(&[kind, target, first, second, third, fourth]: &[u64; 6]) -> Option<Self> {
        match kind {
            READ => Some(Self::Read { address: target, size: width(first)? }),
            WRITE => Some(Self::Write { address: target, size: width(first)?, bytes: second.to_le_bytes() }),
            OUT => {
                let [low, high, ..] = target.to_le_bytes();
                let size = usize::try_from(target >> 16).ok().filter(|&size| size <= OUT_SIZE)?;
                let mut bytes = [0; OUT_SIZE];
                for (place, word) in bytes.as_chunks_mut().0.iter_mut().zip([first, second, third, fourth]) {
                    *place = word.to_le_bytes();
                }
                Some(Self::Out { port: u16::from_le_bytes([low, high]), size, bytes })
            }
            _ => None,
        }
    }
}

/// How many bytes of registers may be accessed at once.
fn width(size: u64) -> Option<usize> {
    usize::try_from(size).ok().filter(|size| [1, 2, 4, 8].contains(size))
}

/// A system call in words: its name, if it has one, and what it was made with.
pub(super) fn describe(call: &seccomp_data) -> String {
    let name = usize::try_from(call.nr).ok().and_then(Sysno::new).map_or("a system call", |call| call.name());
    let [first, second, third, ..] = call.args;
    format!("{name} (number {}, arguments {first:#x}, {second:#x}, {third:#x})", call.nr)
}

#[cfg(test)]
mod tests {
    use super::{CALL, OUT, READ, Request, WRITE, describe};
    use libc::seccomp_data;
    use proptest::prelude::*;

    fn call(nr: i32, args: [u64; 6]) -> seccomp_data {
        seccomp_data { nr, arch: 0, instruction_pointer: 0, args }
    }

    fn request(args: [u64; 6]) -> Option<Request> {
        Request::new(&call(i32::try_from(CALL).unwrap(), args))
    }

    #[test]
    fn each_request_is_understood() {
        assert_eq!(
            request([READ, 0xd000_0000, 4, 0, 0, 0]),
            Some(Request::Read { address: 0xd000_0000, size: 4 })
        );
        let write = Request::Write { address: 1, size: 8, bytes: [8, 7, 6, 5, 4, 3, 2, 1] };
        assert_eq!(request([WRITE, 1, 8, 0x0102_0304_0506_0708, 0, 0]), Some(write));
        let mut bytes = [0; 32];
        (bytes[0], bytes[31]) = (b'a', b'z');
        let out = Request::Out { port: 0xe9, size: 32, bytes };
        assert_eq!(request([OUT, 0x20_00e9, u64::from(b'a'), 0, 0, u64::from(b'z') << 56]), Some(out));
    }

    #[test]
    fn what_is_not_asked_for_properly_is_not_done() {
        for args in [
            [READ, 0, 0, 0, 0, 0],
            [READ, 0, 3, 0, 0, 0],
            [WRITE, 0, 1 << 32, 0, 0, 0],
            [OUT, 33 << 16, 0, 0, 0, 0],
            [OUT, u64::MAX, 0, 0, 0, 0],
            [3, 0, 0, 0, 0, 0],
        ] {
            assert_eq!(request(args), Some(Request::Invalid), "{args:?}");
        }
        assert_eq!(Request::new(&call(0, [READ; 6])), None);
    }

    #[test]
    fn calls_have_names() {
        assert_eq!(describe(&call(257, [1, 2, 3, 0, 0, 0])), "openat (number 257, arguments 0x1, 0x2, 0x3)");
        assert!(describe(&call(0x4000_0000, [0; 6])).starts_with("a system call (number 1073741824,"));
        assert!(describe(&call(-1, [0; 6])).starts_with("a system call (number -1,"));
    }

    proptest! {
        #[test]
        fn any_request_is_within_bounds(kind in 0_u64..4, rest: [u64; 5]) {
            let [target, first, second, third, fourth] = rest;
            match request([kind, target, first, second, third, fourth]).unwrap() {
                Request::Read { size, .. } | Request::Write { size, .. } => prop_assert!(size <= 8),
                Request::Out { size, .. } => prop_assert!(size <= 32),
                Request::Invalid => {}
            }
        }
    }
}
