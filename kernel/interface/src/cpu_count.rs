//! Numbers of CPUs as people write them.

use alloc::format;
use alloc::string::String;
use core::fmt;
use core::num::NonZeroU32;
use core::str::FromStr;

use crate::MAX_CPUS;

/// A number of CPUs of a machine: 1 to [`MAX_CPUS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuCount(NonZeroU32);

impl CpuCount {
    /// Returns the number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0.get()
    }
}

impl Default for CpuCount {
    fn default() -> Self {
        Self(NonZeroU32::MIN)
    }
}

impl fmt::Display for CpuCount {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

impl FromStr for CpuCount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.parse::<NonZeroU32>().ok().filter(|number| number.get() as usize <= MAX_CPUS);
        number.map(Self).ok_or_else(|| format!("a machine has 1 to {MAX_CPUS} CPUs, not `{text}`"))
    }
}

#[cfg(test)]
mod tests {
    use super::CpuCount;

    #[test]
    fn cpu_count_is_1_to_64() {
        assert_eq!("64".parse::<CpuCount>().unwrap().get(), 64);
        for text in ["0", "65", "-1", "two", ""] {
            assert!(text.parse::<CpuCount>().unwrap_err().contains("1 to 64"), "{text}");
        }
    }
}
