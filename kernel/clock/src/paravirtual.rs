//! The clock that KVM keeps for its guests in their memory.
//!
//! What the bytes mean is documented with Linux, in `Documentation/virt/kvm/x86/msr.rst`. The hypervisor may change
//! them at any time, so the reader copies them between two looks at the version, which comes first in both
//! structures, and starts again unless they were [`stable`].

use crate::NANOSECONDS;

/// The time of one processor (`pvclock_vcpu_time_info`).
///
/// `system_time` is the time at `tsc_timestamp`. Ticks since then, first shifted by `tsc_shift` (to the left; if it is
/// negative, to the right), then times `tsc_to_system_mul` / 2^32, are nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PvClock {
    /// Odd while the hypervisor writes.
    pub version: u32,
    /// The time-stamp counter when the hypervisor wrote this.
    pub tsc_timestamp: u64,
    /// Nanoseconds since the machine started, at the same moment.
    pub system_time: u64,
    /// Nanoseconds per shifted tick, times 2^32.
    pub tsc_to_system_mul: u32,
    /// How far ticks are shifted to the left before the multiplication.
    pub tsc_shift: i8,
    /// Bit 0: all processors show the same time; bit 1: the machine was stopped and a watchdog is to forgive that.
    pub flags: u8,
}

impl PvClock {
    /// Takes the copied bytes apart; they are little-endian.
    #[must_use]
    pub fn parse(bytes: &[u8; 32]) -> Self {
        Self {
            version: u32::from_le_bytes(part(bytes, 0)),
            tsc_timestamp: u64::from_le_bytes(part(bytes, 8)),
            system_time: u64::from_le_bytes(part(bytes, 16)),
            tsc_to_system_mul: u32::from_le_bytes(part(bytes, 24)),
            tsc_shift: i8::from_le_bytes(part(bytes, 28)),
            flags: u8::from_le_bytes(part(bytes, 29)),
        }
    }

    /// Ticks of the time-stamp counter per second; `None` for what no hypervisor means: an odd version, a multiplier of
    /// zero, a shift by 32 or more, a frequency below 1 Hz or above 2^64.
    #[must_use]
    pub fn frequency(&self) -> Option<u64> {
        let shift = u32::from(self.tsc_shift.unsigned_abs());
        if !self.version.is_multiple_of(2) || self.tsc_to_system_mul == 0 || shift > 31 {
            return None;
        }
        let multiplier = u128::from(self.tsc_to_system_mul);
        // The nanoseconds of a second, times 2^32 as the multiplier is: below 2^62, and shifted below 2^93.
        let second = u128::from(NANOSECONDS) << 32;
        let (second, multiplier) =
            if self.tsc_shift < 0 { (second << shift, multiplier) } else { (second, multiplier << shift) };
        let frequency = (second + multiplier / 2) / multiplier;
        u64::try_from(frequency).ok().filter(|frequency| *frequency != 0)
    }
}

/// The date at which the machine started (`pvclock_wall_clock`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WallClock {
    /// Odd while the hypervisor writes; 0 before it ever did.
    pub version: u32,
    /// Whole seconds since 1970.
    pub sec: u32,
    /// And nanoseconds.
    pub nsec: u32,
}

impl WallClock {
    /// Takes the copied bytes apart; they are little-endian.
    #[must_use]
    pub fn parse(bytes: &[u8; 12]) -> Self {
        Self {
            version: u32::from_le_bytes(part(bytes, 0)),
            sec: u32::from_le_bytes(part(bytes, 4)),
            nsec: u32::from_le_bytes(part(bytes, 8)),
        }
    }

    /// Nanoseconds from 1970 to the machine's start; to be added to [`PvClock`]'s time.
    #[must_use]
    pub fn nanoseconds(&self) -> u64 {
        u64::from(self.sec) * NANOSECONDS + u64::from(self.nsec)
    }
}

/// Whether bytes that were copied between two looks at the version belong together: nobody was writing, and nobody wrote
/// meanwhile.
#[must_use]
pub const fn stable(before: u32, after: u32) -> bool {
    before == after && before.is_multiple_of(2)
}

/// The bytes from `start` on.
fn part<const SIZE: usize, const ALL: usize>(bytes: &[u8; ALL], start: usize) -> [u8; SIZE] {
    core::array::from_fn(|index| bytes[start + index])
}

#[cfg(test)]
mod tests {
    use super::{PvClock, WallClock, stable};
    use crate::NANOSECONDS;
    use proptest::prelude::any;
    use proptest::{prop_assert, proptest};

    /// What a hypervisor writes for a frequency: the multiplier has all 32 bits.
    fn clock(frequency: u64) -> PvClock {
        let mut tsc_shift = 0_i8;
        let scaled = |shift: i8| {
            let second = u128::from(NANOSECONDS) << 64;
            let ticks = u128::from(frequency) << 32;
            if shift < 0 { (second << -shift) / ticks } else { second / (ticks << shift) }
        };
        while scaled(tsc_shift) > u128::from(u32::MAX) {
            tsc_shift += 1;
        }
        while scaled(tsc_shift) < 1 << 31 {
            tsc_shift -= 1;
        }
        let tsc_to_system_mul = u32::try_from(scaled(tsc_shift)).unwrap();
        PvClock { version: 2, tsc_timestamp: 0, system_time: 0, tsc_to_system_mul, tsc_shift, flags: 1 }
    }

    #[test]
    fn the_fields_are_where_they_belong() {
        let bytes: [u8; 32] = core::array::from_fn(|index| u8::try_from(index).unwrap() + 0xe0);
        let expected = PvClock {
            version: 0xe3e2_e1e0,
            tsc_timestamp: 0xefee_edec_ebea_e9e8,
            system_time: 0xf7f6_f5f4_f3f2_f1f0,
            tsc_to_system_mul: 0xfbfa_f9f8,
            tsc_shift: -4,
            flags: 0xfd,
        };
        assert_eq!(PvClock::parse(&bytes), expected);
        let wall = WallClock::parse(&[2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 1]);
        assert_eq!(wall, WallClock { version: 2, sec: 3, nsec: 0x100_0004 });
        assert_eq!(wall.nanoseconds(), 3_016_777_220);
    }

    #[test]
    fn known_frequencies() {
        let two = PvClock { tsc_to_system_mul: 1 << 31, tsc_shift: 0, ..clock(NANOSECONDS) };
        assert_eq!(two.frequency(), Some(2_000_000_000));
        assert_eq!(PvClock { tsc_shift: 1, ..two }.frequency(), Some(1_000_000_000));
        assert_eq!(PvClock { tsc_shift: -1, ..two }.frequency(), Some(4_000_000_000));
        assert_eq!(PvClock { tsc_shift: 31, ..two }.frequency(), Some(1));
    }

    #[test]
    fn nonsense_has_no_frequency() {
        let good = clock(3_000_000_000);
        for bad in [
            PvClock { version: 3, ..good },
            PvClock { tsc_to_system_mul: 0, ..good },
            PvClock { tsc_shift: 32, ..good },
            PvClock { tsc_shift: -32, ..good },
            PvClock { tsc_shift: i8::MIN, ..good },
            PvClock { tsc_shift: -31, tsc_to_system_mul: 1, ..good },
            PvClock::parse(&[0; 32]),
        ] {
            assert_eq!(bad.frequency(), None, "{bad:?}");
        }
    }

    #[test]
    fn only_an_even_unchanged_version_is_stable() {
        assert!(stable(0, 0) && stable(2, 2));
        assert!(!stable(2, 4) && !stable(3, 3) && !stable(2, 3) && !stable(3, 4));
    }

    proptest! {
        #[test]
        fn the_frequency_is_right_to_a_millionth(frequency in 10_000_000..10_000_000_000_u64) {
            let found = clock(frequency).frequency().unwrap();
            prop_assert!(found.abs_diff(frequency) <= frequency / 1_000_000, "{} is not {}", found, frequency);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in any::<[u8; 32]>(), wall in any::<[u8; 12]>()) {
            let _frequency = PvClock::parse(&bytes).frequency();
            let _start = WallClock::parse(&wall).nanoseconds();
        }
    }
}
