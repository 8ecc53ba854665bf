//! Size of free memory.

use tokio::fs;

/// Returns the size of the unused memory in bytes, if the system reports it.
pub(crate) async fn available() -> Option<u64> {
    parse(&fs::read_to_string("/proc/meminfo").await.ok()?)
}

fn parse(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn available_memory_is_in_bytes() {
        assert_eq!(parse("MemTotal: 9 kB\nMemAvailable:    4 kB\n"), Some(4096));
        assert_eq!(parse("MemTotal: 9 kB\n"), None);
        assert_eq!(parse("MemAvailable: many kB\n"), None);
    }
}
