//! Where things are in the address space.
//!
//! The lower half, in units of 512 GiB (one entry of the top page table each):
//!
//! | entries | what |
//! | --- | --- |
//! | 0 | the loader's identity map until the kernel runs, then nothing: a null pointer never hits anything |
//! | 1..63 | the image, at any page |
//! | 63 | nothing; a kernel that is a process uses it (`hermit_interface::process::SPARE_ADDRESSES`) |
//! | 64..128 | the direct map of physical memory, at the start of an entry |
//! | 128..255 | free for the kernel, from a random page in the first half on |

use hermit_interface::address::PAGE_SIZE;
use hermit_interface::boot_info::Region;
use hermit_interface::image::MAX_SIZE;

/// What one entry of the top page table maps.
const ENTRY: u64 = 1 << 39;

/// Random numbers that decide where things go. Each is used for one decision.
#[derive(Clone, Copy, Debug)]
pub struct Randomness {
    /// For the image's start.
    pub image: u64,
    /// For the start of the direct map.
    pub direct_map: u64,
    /// For the start of the kernel's own addresses.
    pub free_addresses: u64,
}

/// Start of the image.
pub(crate) fn image_start(random: u64, align: u64) -> u64 {
    let start = ENTRY + random % (62 * ENTRY - MAX_SIZE);
    start & !(align - 1)
}

/// Start of the direct map.
pub(crate) fn direct_map_start(random: u64) -> u64 {
    (64 + random % 32) * ENTRY
}

/// The addresses that are the kernel's to use.
pub(crate) fn free_addresses(random: u64) -> Region {
    let start = 128 * ENTRY + ((random % (63 * ENTRY)) & !(PAGE_SIZE - 1));
    Region { start, size: 255 * ENTRY - start }
}

#[cfg(test)]
mod tests {
    use super::{ENTRY, direct_map_start, free_addresses, image_start};
    use hermit_interface::image::MAX_SIZE;

    #[test]
    fn nothing_leaves_its_place() {
        for random in [0, 1, u64::MAX, u64::MAX / 3, 1 << 45, (62 * ENTRY - MAX_SIZE) - 1] {
            for align in [4096, 1 << 21, 1 << 30] {
                let start = image_start(random, align);
                assert!(start >= ENTRY && start + MAX_SIZE <= 63 * ENTRY && start.is_multiple_of(align));
            }
            let start = direct_map_start(random);
            assert!((64 * ENTRY..128 * ENTRY).contains(&start) && start.is_multiple_of(ENTRY));
            let free = free_addresses(random);
            assert!(
                free.start >= 128 * ENTRY && free.end() == 255 * ENTRY && free.start.is_multiple_of(4096)
            );
        }
    }
}
