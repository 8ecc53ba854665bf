//! The paravirtual clock of KVM (kvmclock), which the hypervisor keeps in guest memory.
//!
//! The layout is documented in Linux's `Documentation/virt/kvm/x86/msr.rst`. The hypervisor may update a
//! structure at any time. So the reader reads the version, which is the first field of both structures,
//! copies the structure, and reads the version again. It retries until the copy is
//! [consistent](is_consistent).

use crate::NANOSECONDS;

/// System time of one vCPU (`pvclock_vcpu_time_info`).
///
/// `system_time` is the time at `tsc_timestamp`. Ticks since then are converted to nanoseconds in two steps:
/// shift the ticks left by `tsc_shift` (right if it is negative), then multiply by `tsc_to_system_mul` /
/// 2^32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PvClock {
    /// Version, odd during an update.
    pub version: u32,
    /// Value of the time-stamp counter at the update.
    pub tsc_timestamp: u64,
    /// System time at the update: nanoseconds since the start of the machine.
    pub system_time: u64,
    /// Nanoseconds per shifted tick, times 2^32.
    pub tsc_to_system_mul: u32,
    /// Left shift of ticks before the multiplication; negative for a right shift.
    pub tsc_shift: i8,
    /// Bit 0 (`PVCLOCK_TSC_STABLE_BIT`): the time is consistent across vCPUs. Bit 1
    /// (`PVCLOCK_GUEST_STOPPED`): the guest was paused.
    pub flags: u8,
}

impl PvClock {
    /// Decodes a copy of the structure, which is little-endian.
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

    /// Frequency of the time-stamp counter in Hz; `None` if the structure is invalid: an odd version, a
    /// multiplier of 0, a shift by 32 or more, or a frequency below 1 Hz or above 2^64 Hz.
    #[must_use]
    pub fn frequency(&self) -> Option<u64> {
        let shift = u32::from(self.tsc_shift.unsigned_abs());
        if !self.version.is_multiple_of(2) || self.tsc_to_system_mul == 0 || shift > 31 {
            return None;
        }
        let multiplier = u128::from(self.tsc_to_system_mul);
        // Nanoseconds per second, scaled by 2^32 as the multiplier is: below 2^62, and shifted below 2^93.
        let second = u128::from(NANOSECONDS) << 32;
        let (second, multiplier) =
            if self.tsc_shift < 0 { (second << shift, multiplier) } else { (second, multiplier << shift) };
        let frequency = (second + multiplier / 2) / multiplier;
        u64::try_from(frequency).ok().filter(|frequency| *frequency != 0)
    }

    /// System time at a value of the time-stamp counter; [`Self::system_time`] for values before the update.
    #[must_use]
    pub fn system_time_at(&self, counter: u64) -> u64 {
        let ticks = u128::from(counter.saturating_sub(self.tsc_timestamp));
        let shift = u32::from(self.tsc_shift.unsigned_abs()).min(31);
        let ticks = if self.tsc_shift < 0 { ticks >> shift } else { ticks << shift };
        let passed = (ticks * u128::from(self.tsc_to_system_mul)) >> 32;
        self.system_time.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX))
    }
}

/// Wall clock at the start of the machine (`pvclock_wall_clock`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WallClock {
    /// Version, odd during an update; 0 before the first update.
    pub version: u32,
    /// Seconds since 1970-01-01.
    pub sec: u32,
    /// Nanoseconds of the second.
    pub nsec: u32,
}

impl WallClock {
    /// Decodes a copy of the structure, which is little-endian.
    #[must_use]
    pub fn parse(bytes: &[u8; 12]) -> Self {
        Self {
            version: u32::from_le_bytes(part(bytes, 0)),
            sec: u32::from_le_bytes(part(bytes, 4)),
            nsec: u32::from_le_bytes(part(bytes, 8)),
        }
    }

    /// Nanoseconds from 1970-01-01 to the start of the machine, to be added to the system time of a
    /// [`PvClock`].
    #[must_use]
    pub fn nanoseconds(&self) -> u64 {
        u64::from(self.sec) * NANOSECONDS + u64::from(self.nsec)
    }
}

/// Returns true if a copy is consistent: between the readings of the versions `before` and `after`, no update
/// was in progress or happened.
#[must_use]
pub const fn is_consistent(before: u32, after: u32) -> bool {
    before == after && before.is_multiple_of(2)
}

/// `SIZE` bytes from `start` on.
fn part<const SIZE: usize, const ALL: usize>(bytes: &[u8; ALL], start: usize) -> [u8; SIZE] {
    core::array::from_fn(|index| bytes[start + index])
}

#[cfg(test)]
mod tests {
    use super::{PvClock, WallClock, is_consistent};
    use crate::NANOSECONDS;
    use proptest::prelude::any;
    use proptest::{prop_assert, proptest};

    /// The structure of a hypervisor for a frequency in Hz, with a normalised multiplier of 32 bits.
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
    fn parse_decodes_the_layout() {
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
    fn frequency_follows_multiplier_and_shift() {
        let two = PvClock { tsc_to_system_mul: 1 << 31, tsc_shift: 0, ..clock(NANOSECONDS) };
        assert_eq!(two.frequency(), Some(2_000_000_000));
        assert_eq!(PvClock { tsc_shift: 1, ..two }.frequency(), Some(1_000_000_000));
        assert_eq!(PvClock { tsc_shift: -1, ..two }.frequency(), Some(4_000_000_000));
        assert_eq!(PvClock { tsc_shift: 31, ..two }.frequency(), Some(1));
    }

    #[test]
    fn invalid_structure_has_no_frequency() {
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
    fn only_an_even_unchanged_version_is_consistent() {
        assert!(is_consistent(0, 0) && is_consistent(2, 2));
        assert!(!is_consistent(2, 4) && !is_consistent(3, 3) && !is_consistent(2, 3) && !is_consistent(3, 4));
    }

    #[test]
    fn system_time_continues_from_the_update() {
        let two = PvClock {
            tsc_to_system_mul: 1 << 31,
            tsc_timestamp: 1_000,
            system_time: 70,
            ..clock(NANOSECONDS)
        };
        let two = PvClock { tsc_shift: 0, ..two };
        assert_eq!([0, 1_000, 1_100].map(|counter| two.system_time_at(counter)), [70, 70, 120]);
        assert_eq!(PvClock { tsc_shift: 1, ..two }.system_time_at(1_100), 170);
        assert_eq!(PvClock { tsc_shift: -1, ..two }.system_time_at(1_100), 95);
    }

    proptest! {
        #[test]
        fn frequency_is_exact_to_a_millionth(frequency in 10_000_000..10_000_000_000_u64) {
            let found = clock(frequency).frequency().unwrap();
            prop_assert!(found.abs_diff(frequency) <= frequency / 1_000_000, "{} is not {}", found, frequency);
        }

        #[test]
        fn any_bytes_parse_without_panic(bytes in any::<[u8; 32]>(), wall in any::<[u8; 12]>()) {
            let _frequency = PvClock::parse(&bytes).frequency();
            let _time: [u64; 2] = [0, u64::MAX].map(|counter| PvClock::parse(&bytes).system_time_at(counter));
            let _start = WallClock::parse(&wall).nanoseconds();
        }
    }
}
