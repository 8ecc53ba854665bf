//! Dates of a PC's real-time clock (MC146818A).

/// A date and time in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date {
    year: u64,
    month: u64,
    day: u64,
    hours: u64,
    minutes: u64,
    seconds: u64,
}

/// PM bit of the hours register in 12-hour mode (MC146818A).
const PM: u8 = 1 << 7;

impl Date {
    /// Decodes the registers of a real-time clock, in the order seconds, minutes, hours, day, month, year,
    /// century. The mode bits of status register B select `binary` or BCD, and the 24-hour or 12-hour mode.
    #[must_use]
    pub fn from_rtc(registers: [u8; 7], binary: bool, hours_24: bool) -> Self {
        let number =
            |register: u8| u64::from(if binary { register } else { (register >> 4) * 10 + (register & 0xf) });
        let [seconds, minutes, hours, day, month, year, century] = registers;
        let hour = number(hours & !PM);
        let hours = match (hours_24, hours & PM != 0) {
            (true, _) => number(hours),
            (false, afternoon) => hour % 12 + if afternoon { 12 } else { 0 },
        };
        // Without a century register the byte has another meaning.
        let century = Some(number(century)).filter(|century| (19..30).contains(century)).unwrap_or(20);
        Self {
            year: century * 100 + number(year),
            month: number(month).clamp(1, 12),
            day: number(day).clamp(1, 31),
            hours,
            minutes: number(minutes),
            seconds: number(seconds),
        }
    }

    /// Seconds since 1970-01-01; 0 for earlier dates.
    #[must_use]
    pub fn seconds_since_1970(self) -> u64 {
        // Count years from March, so that a leap day is the last day of its year.
        let year = if self.month > 2 { self.year } else { self.year - 1 };
        let month = (self.month + 9) % 12;
        let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + self.day - 1;
        let days = days.saturating_sub(719_468);
        ((days * 24 + self.hours) * 60 + self.minutes) * 60 + self.seconds
    }
}

#[cfg(test)]
mod tests {
    use super::Date;

    fn seconds(registers: [u8; 7], binary: bool, hours_24: bool) -> u64 {
        Date::from_rtc(registers, binary, hours_24).seconds_since_1970()
    }

    #[test]
    fn known_dates_are_converted() {
        assert_eq!(seconds([0, 0, 0, 1, 1, 70, 19], true, true), 0);
        assert_eq!(seconds([0, 0, 0, 29, 2, 24, 20], true, true), 1_709_164_800);
        assert_eq!(seconds([0, 0, 0, 1, 3, 24, 20], true, true), 1_709_251_200);
        assert_eq!(seconds([59, 59, 23, 31, 12, 99, 20], true, true), 4_102_444_799);
    }

    #[test]
    fn bcd_and_12_hour_mode_are_decoded() {
        let noon = 1_767_268_800; // 2026-01-01 12:00
        assert_eq!(seconds([0, 0, 0x12, 1, 1, 0x26, 0x20], false, true), noon);
        assert_eq!(seconds([0, 0, 0x92, 1, 1, 0x26, 0x20], false, false), noon);
        assert_eq!(seconds([0, 0, 0x12, 1, 1, 0x26, 0x20], false, false), noon - 12 * 3600);
        assert_eq!(seconds([0, 0, 0x81, 1, 1, 0x26, 0x20], false, false), noon + 3600);
    }

    #[test]
    fn missing_century_register_means_the_21st_century() {
        assert_eq!(seconds([0, 0, 12, 1, 1, 26, 0], true, true), 1_767_268_800);
    }

    #[test]
    fn invalid_registers_do_not_panic() {
        for byte in [0, 0x7f, 0xff] {
            let _: u64 = seconds([byte; 7], true, true);
            let _: u64 = seconds([byte; 7], false, false);
        }
    }
}
