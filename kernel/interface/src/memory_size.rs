//! Memory sizes on command lines: parsing and formatting.

use alloc::format;
use alloc::string::String;
use core::fmt;
use core::str::FromStr;

/// Minimum memory of a machine in bytes: for loader, image, page tables and a heap. hello_world needs 6 MiB
/// in uhyve and 8 MiB in QEMU (docs/measurements.md).
const MIN_SIZE: u64 = 8 << 20;

/// Maximum memory of a machine in bytes.
const MAX_SIZE: u64 = 1 << 40;

/// Memory size of a machine: at least 8 MiB, a multiple of 1 MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemorySize(u64);

impl MemorySize {
    /// A size in MiB, without a minimum: for measuring how much memory a program needs.
    #[must_use]
    pub const fn unchecked_mebibytes(mebibytes: u64) -> Self {
        Self(mebibytes << 20)
    }

    /// Size in MiB.
    #[must_use]
    pub const fn mebibytes(self) -> u64 {
        self.0 >> 20
    }

    /// Size in bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

impl Default for MemorySize {
    fn default() -> Self {
        Self(128 << 20)
    }
}

impl fmt::Display for MemorySize {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}M", self.mebibytes())
    }
}

impl FromStr for MemorySize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let help =
            || format!("`{text}` is no size: write bytes, or a number with K, M or G, such as 64M or 1G");
        let (digits, shift) = match text.char_indices().last() {
            Some((end, 'K' | 'k')) => (&text[..end], 10),
            Some((end, 'M' | 'm')) => (&text[..end], 20),
            Some((end, 'G' | 'g')) => (&text[..end], 30),
            _ => (text, 0),
        };
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(help());
        }
        let number: u64 = digits.parse().map_err(|_| help())?;
        let bytes = number.checked_mul(1 << shift).filter(|&bytes| bytes <= MAX_SIZE);
        let bytes = bytes.ok_or_else(|| format!("{text} is more than the most a machine can have, 1024G"))?;
        if bytes < MIN_SIZE {
            // A number without a unit is in bytes.
            let hint = if text.parse() == Ok(bytes) && bytes << 20 >= MIN_SIZE {
                format!("; did you mean {text}M?")
            } else {
                String::new()
            };
            return Err(format!("{bytes} bytes are too little: a machine has at least 8M{hint}"));
        }
        if bytes % (1 << 20) != 0 {
            return Err(format!("{text} is no whole number of mebibytes"));
        }
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::MemorySize;

    #[test]
    fn sizes_with_suffixes_are_parsed() {
        for (text, mebibytes) in [("8M", 8), ("64m", 64), ("1G", 1024), ("8192K", 8), ("8388608", 8)] {
            assert_eq!(text.parse::<MemorySize>().unwrap().mebibytes(), mebibytes, "{text}");
        }
    }

    #[test]
    fn invalid_sizes_are_rejected_with_a_hint() {
        for text in ["abc", "", "M", "-1M", "1.5G", "64MB", " 64M", "9e9", "99999999999999999999"] {
            let error = text.parse::<MemorySize>().unwrap_err();
            assert!(error.contains("such as 64M"), "{text}: {error}");
        }
        for (text, message) in [
            ("1M", "1048576 bytes are too little: a machine has at least 8M"),
            ("7", "7 bytes are too little: a machine has at least 8M"),
            ("64", "64 bytes are too little: a machine has at least 8M; did you mean 64M?"),
        ] {
            assert_eq!(text.parse::<MemorySize>().unwrap_err(), message);
        }
        assert!("2048G".parse::<MemorySize>().unwrap_err().contains("1024G"));
        assert!("8388609".parse::<MemorySize>().unwrap_err().contains("whole number"));
    }
}
