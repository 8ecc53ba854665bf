//! The real-time clock (Motorola MC146818A data sheet), which firmware keeps in UTC.

use hermit_clock::Date;

use crate::arch::x86_64::port::Register;
use crate::clock;

/// A register of the clock.
const fn rtc(port: u16) -> Register {
    // SAFETY: the clock does no DMA, so no access affects memory.
    unsafe { Register::new(port) }
}

const INDEX: Register = rtc(0x70);
const VALUE: Register = rtc(0x71);

const SECONDS: u8 = 0x00;
const MINUTES: u8 = 0x02;
const HOURS: u8 = 0x04;
const DAY: u8 = 0x07;
const MONTH: u8 = 0x08;
const YEAR: u8 = 0x09;
const STATUS_A: u8 = 0x0a;
const STATUS_B: u8 = 0x0b;
/// Register in which QEMU and most firmware keep the century.
const CENTURY: u8 = 0x32;

const UPDATE_IN_PROGRESS: u8 = 1 << 7;
const BINARY: u8 = 1 << 2;
const HOURS_24: u8 = 1 << 1;

fn register(index: u8) -> u8 {
    INDEX.write(index);
    VALUE.read()
}

/// Time limit of an update, which takes 2.2 ms at most (MC146818A data sheet, update cycle).
const UPDATE_TIMEOUT_NS: u64 = 10_000_000;

/// Value that status register A reads as if there is no clock. A clock never has this value, which would
/// select a time base that does not exist.
const ABSENT: u8 = 0xff;

/// Reads the clock. Returns the seconds since 1970 (UTC), or `None` if there is no clock or an update of the
/// clock never ends.
pub(super) fn read() -> Option<u64> {
    if register(STATUS_A) == ABSENT {
        return None;
    }
    let deadline = clock::monotonic() + UPDATE_TIMEOUT_NS;
    // The registers may be updated while they are read. Two equal readings in a row are consistent.
    let mut last = registers(deadline)?;
    loop {
        let now = registers(deadline)?;
        if now == last {
            return Some(date(now).seconds_since_1970());
        }
        last = now;
    }
}

fn registers(deadline: u64) -> Option<[u8; 7]> {
    while register(STATUS_A) & UPDATE_IN_PROGRESS != 0 {
        if clock::monotonic() > deadline {
            return None;
        }
        core::hint::spin_loop();
    }
    Some([SECONDS, MINUTES, HOURS, DAY, MONTH, YEAR, CENTURY].map(register))
}

fn date([seconds, minutes, hours, day, month, year, century]: [u8; 7]) -> Date {
    let mode = register(STATUS_B);
    Date::from_rtc(
        [seconds, minutes, hours, day, month, year, century],
        mode & BINARY != 0,
        mode & HOURS_24 != 0,
    )
}
