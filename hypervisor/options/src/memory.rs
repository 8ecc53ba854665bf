//! Check of a machine's memory size against the memory of the host.

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

/// Checks that the host has enough memory and swap for the whole memory of a machine. The host allocates
/// pages at their first use, so without this check the out-of-memory killer would end a run in the middle.
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

/// Returns memory and swap in bytes (sysinfo(2)).
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
        // The check passes only on a host with a tebibyte of memory and swap.
        let Err(error) = check("1024G".parse().unwrap()) else { return };
        assert!(error.available < 1 << 20 && error.to_string().contains("this host's memory"), "{error}");
    }
}
