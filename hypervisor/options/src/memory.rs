//! Check of the memory of a machine against that of the host.

use hermit_interface::memory_size::MemorySize;
use rustix::system::{Sysinfo, sysinfo};

/// Why a machine cannot have its memory.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{wanted} are more than this host's memory and swap, {available}M: choose a smaller --memory")]
pub struct MemoryExceeded {
    /// Memory of the machine.
    pub wanted: MemorySize,
    /// Memory and swap of the host in MiB.
    pub available: u64,
}

/// Checks that the host could fill the whole memory of a machine. The host allocates pages at their first
/// use, so a larger size would be found out in the middle of a run, by the host's out-of-memory killer.
///
/// # Errors
///
/// See [`MemoryExceeded`].
pub fn check(wanted: MemorySize) -> Result<(), MemoryExceeded> {
    let available = total(&sysinfo());
    if wanted.bytes() > available {
        return Err(MemoryExceeded { wanted, available: available >> 20 });
    }
    Ok(())
}

/// Memory and swap in bytes (sysinfo(2)).
fn total(host: &Sysinfo) -> u64 {
    (host.totalram.saturating_add(host.totalswap)).saturating_mul(host.mem_unit.into())
}

#[cfg(test)]
mod tests {
    use super::{check, total};
    use rustix::system::sysinfo;
    use std::fs;

    #[test]
    fn total_is_memory_and_swap() {
        let text = fs::read_to_string("/proc/meminfo").unwrap();
        let field = |name: &str| -> u64 {
            let value = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            value.trim().strip_suffix(" kB").unwrap().parse().unwrap()
        };
        assert_eq!(total(&sysinfo()) >> 10, field("MemTotal:") + field("SwapTotal:"));
    }

    #[test]
    fn more_than_the_host_has_is_refused() {
        assert_eq!(check("8M".parse().unwrap()), Ok(()));
        // This host is no machine with a tebibyte of memory and swap, or the check passes.
        let Err(error) = check("1024G".parse().unwrap()) else { return };
        assert!(error.available < 1 << 20 && error.to_string().contains("this host's memory"), "{error}");
    }
}
