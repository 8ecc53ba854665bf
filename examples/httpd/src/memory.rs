//! The system's free memory.

use std::fs;

/// Returns the size of the unused memory in bytes, if the system reports it.
pub(crate) fn available() -> Option<u64> {
    available_of(&fs::read_to_string("/proc/meminfo").ok()?)
}

/// Returns the available memory in bytes, from the text of `/proc/meminfo`.
fn available_of(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::available_of;

    #[test]
    fn available_memory_is_found_among_other_lines() {
        assert_eq!(available_of("MemTotal:  64 kB\nMemAvailable:   48 kB\n"), Some(48 << 10));
        assert_eq!(available_of("MemTotal:  64 kB\n"), None);
        assert_eq!(available_of("MemAvailable: 48\n"), None);
        assert_eq!(available_of("MemAvailable: 18446744073709551615 kB\n"), None);
    }
}
