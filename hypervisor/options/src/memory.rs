//! Check of the memory of a machine against that of the host.

use std::fs;

use hermit_interface::memory_size::MemorySize;

/// File with the sizes of the host's memory, in kB (proc_meminfo(5)).
const MEMINFO: &str = "/proc/meminfo";

/// Why a machine cannot have its memory.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{wanted} are more than this host's memory and swap, {available}M: choose a smaller --memory")]
pub struct MemoryExceeded {
    /// Memory of the machine.
    pub wanted: MemorySize,
    /// Memory and swap of the host in MiB.
    pub available: u64,
}

/// Checks that the host could fill the whole memory of a machine. The host allocates pages at their first use, so a
/// larger size would be found out in the middle of a run, by the host's out-of-memory killer.
///
/// # Errors
///
/// See [`MemoryExceeded`]. If the host does not tell its memory, every size is accepted.
pub fn check(wanted: MemorySize) -> Result<(), MemoryExceeded> {
    let Some(available) = fs::read_to_string(MEMINFO).ok().and_then(|text| total(&text)) else {
        return Ok(());
    };
    if wanted.bytes() > available {
        return Err(MemoryExceeded { wanted, available: available >> 20 });
    }
    Ok(())
}

/// Memory and swap in bytes.
fn total(meminfo: &str) -> Option<u64> {
    let field = |name: &str| -> Option<u64> {
        let value = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        value.trim().strip_suffix(" kB")?.parse().ok()
    };
    field("MemTotal")?.checked_add(field("SwapTotal").unwrap_or(0))?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::{check, total};

    #[test]
    fn total_is_memory_and_swap() {
        let text = "MemTotal:       1024 kB\nMemFree:  9 kB\nSwapTotal:        1 kB\n";
        assert_eq!(total(text), Some(1025 << 10));
        assert_eq!((total("MemTotal: 4 kB\n"), total("")), (Some(4096), None));
    }

    #[test]
    fn more_than_the_host_has_is_refused() {
        assert_eq!(check("8M".parse().unwrap()), Ok(()));
        // This host is no machine with a tebibyte of memory and swap, or the check passes.
        let Err(error) = check("1024G".parse().unwrap()) else { return };
        assert!(error.available < 1 << 20 && error.to_string().contains("this host's memory"), "{error}");
    }
}
