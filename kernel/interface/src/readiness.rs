//! Readiness of an object for I/O, as `poll(2)` reports it.

/// Conditions under which I/O on an object does not block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// A read does not block (`POLLIN`).
    pub read: bool,
    /// A write does not block (`POLLOUT`).
    pub write: bool,
    /// The peer has shut down its writing half (`POLLRDHUP`).
    pub read_hang_up: bool,
    /// Both directions are shut down (`POLLHUP`).
    pub hang_up: bool,
    /// An error is pending (`POLLERR`).
    pub error: bool,
}

const READ: u32 = 1;
const WRITE: u32 = 2;
const READ_HANG_UP: u32 = 4;
const HANG_UP: u32 = 8;
const ERROR: u32 = 16;

impl Readiness {
    /// Packs the conditions into bits, for the functions between kernel and network stack ([`crate::net`]).
    #[must_use]
    pub const fn to_bits(self) -> u32 {
        const fn bit(is_set: bool, bit: u32) -> u32 {
            if is_set { bit } else { 0 }
        }
        bit(self.read, READ)
            | bit(self.write, WRITE)
            | bit(self.read_hang_up, READ_HANG_UP)
            | bit(self.hang_up, HANG_UP)
            | bit(self.error, ERROR)
    }

    /// Unpacks what [`Self::to_bits`] has packed. Other bits are ignored.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self {
            read: bits & READ != 0,
            write: bits & WRITE != 0,
            read_hang_up: bits & READ_HANG_UP != 0,
            hang_up: bits & HANG_UP != 0,
            error: bits & ERROR != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Readiness;

    #[test]
    fn readiness_survives_packing() {
        for bits in 0..32 {
            assert_eq!(Readiness::from_bits(bits).to_bits(), bits);
        }
        assert_eq!(Readiness::from_bits(u32::MAX).to_bits(), 31);
        let error = Readiness { error: true, ..Readiness::default() };
        assert_eq!(Readiness::from_bits(error.to_bits()), error);
    }
}
