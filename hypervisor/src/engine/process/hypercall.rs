//! Decoding of hypercalls: the system call [`CALL`] of the guest's kernel.

use hermit_interface::process::{CALL, OUT, OUT_SIZE, READ, TRY_OUT, WRITE};
use libc::seccomp_data;

/// Hypercall of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hypercall {
    /// Reads `size` bytes of device registers.
    MmioRead { address: u64, size: usize },
    /// Writes the first `size` of the bytes to device registers.
    MmioWrite { address: u64, size: usize, bytes: [u8; 8] },
    /// Writes the first `size` of the bytes to a port.
    PioWrite { port: u16, size: usize, bytes: [u8; OUT_SIZE] },
    /// Writes the first `size` of the bytes to a text port, if the hypervisor can take them without blocking.
    TryPioWrite { port: u16, size: usize, bytes: [u8; OUT_SIZE] },
    /// The arguments are not those of a hypercall.
    Invalid,
}

impl Hypercall {
    /// Decodes a system call. The filter reports only [`CALL`].
    pub(super) fn decode(call: &seccomp_data) -> Self {
        let is_hypercall = u64::try_from(call.nr) == Ok(CALL);
        let hypercall = is_hypercall.then(|| Self::decode_arguments(&call.args)).flatten();
        hypercall.unwrap_or(Self::Invalid)
    }

    fn decode_arguments(&[kind, target, first, second, third, fourth]: &[u64; 6]) -> Option<Self> {
        match kind {
            READ => Some(Self::MmioRead { address: target, size: width(first)? }),
            WRITE => {
                Some(Self::MmioWrite { address: target, size: width(first)?, bytes: second.to_le_bytes() })
            }
            OUT | TRY_OUT => {
                let [low, high, ..] = target.to_le_bytes();
                let port = u16::from_le_bytes([low, high]);
                let size = usize::try_from(target >> 16).ok().filter(|&size| size <= OUT_SIZE)?;
                let mut bytes = [0; OUT_SIZE];
                for (to, word) in bytes.as_chunks_mut().0.iter_mut().zip([first, second, third, fourth]) {
                    *to = word.to_le_bytes();
                }
                Some(match kind {
                    OUT => Self::PioWrite { port, size, bytes },
                    _ => Self::TryPioWrite { port, size, bytes },
                })
            }
            _ => None,
        }
    }
}

/// Checks the width of a register access in bytes.
fn width(size: u64) -> Option<usize> {
    usize::try_from(size).ok().filter(|size| [1, 2, 4, 8].contains(size))
}

#[cfg(test)]
mod tests {
    use super::{CALL, Hypercall, OUT, READ, TRY_OUT, WRITE};
    use libc::seccomp_data;
    use proptest::prelude::*;

    fn call(nr: i32, args: [u64; 6]) -> seccomp_data {
        seccomp_data { nr, arch: 0, instruction_pointer: 0, args }
    }

    fn decode(args: [u64; 6]) -> Hypercall {
        Hypercall::decode(&call(i32::try_from(CALL).unwrap(), args))
    }

    #[test]
    fn each_hypercall_is_decoded() {
        assert_eq!(
            decode([READ, 0xd000_0000, 4, 0, 0, 0]),
            Hypercall::MmioRead { address: 0xd000_0000, size: 4 }
        );
        let write = Hypercall::MmioWrite { address: 1, size: 8, bytes: [8, 7, 6, 5, 4, 3, 2, 1] };
        assert_eq!(decode([WRITE, 1, 8, 0x0102_0304_0506_0708, 0, 0]), write);
        let mut bytes = [0; 32];
        (bytes[0], bytes[31]) = (b'a', b'z');
        let out = Hypercall::PioWrite { port: 0xe9, size: 32, bytes };
        let words = [u64::from(b'a'), 0, 0, u64::from(b'z') << 56];
        let decode_out = |kind| decode([kind, 0x20_00e9, words[0], words[1], words[2], words[3]]);
        assert_eq!(decode_out(OUT), out);
        assert_eq!(decode_out(TRY_OUT), Hypercall::TryPioWrite { port: 0xe9, size: 32, bytes });
    }

    #[test]
    fn invalid_arguments_decode_to_invalid() {
        for args in [
            [READ, 0, 0, 0, 0, 0],
            [READ, 0, 3, 0, 0, 0],
            [WRITE, 0, 1 << 32, 0, 0, 0],
            [OUT, 33 << 16, 0, 0, 0, 0],
            [OUT, u64::MAX, 0, 0, 0, 0],
            [TRY_OUT, 33 << 16, 0, 0, 0, 0],
            [4, 0, 0, 0, 0, 0],
        ] {
            assert_eq!(decode(args), Hypercall::Invalid, "{args:?}");
        }
        assert_eq!(Hypercall::decode(&call(0, [READ, 0, 4, 0, 0, 0])), Hypercall::Invalid);
    }

    proptest! {
        #[test]
        fn decoded_sizes_are_within_bounds(kind in 0_u64..5, rest: [u64; 5]) {
            let [target, first, second, third, fourth] = rest;
            match decode([kind, target, first, second, third, fourth]) {
                Hypercall::MmioRead { size, .. } | Hypercall::MmioWrite { size, .. } => prop_assert!(size <= 8),
                Hypercall::PioWrite { size, .. } | Hypercall::TryPioWrite { size, .. } => {
                    prop_assert!(size <= 32);
                }
                Hypercall::Invalid => {}
            }
        }
    }
}
