//! Layout of the virtual address space.
//!
//! The lower half, in units of 512 GiB (one PML4 entry each):
//!
//! | entries | use |
//! | --- | --- |
//! | 0 | the loader's identity map until the kernel runs, then unmapped, so that null pointers fault |
//! | 1..63 | the image, at any page |
//! | 63 | unused |
//! | 64..128 | the direct map of physical memory, at the start of an entry |
//! | 128..255 | the kernel's own mappings ([`own_mappings_size`]), at any page |

use hermit_interface::address::PAGE_SIZE;
use hermit_interface::boot_info::Region;
use hermit_interface::image::MAX_SIZE;

/// Size of the range of an entry of the top-level page table (PML4), in bytes.
const TOP_ENTRY_SIZE: u64 = 1 << 39;

/// Size of the addresses for the kernel's own mappings: a factor by which the size of the memory is
/// multiplied, and a number of bytes that is added.
///
/// The kernel uses two thirds of them for stacks (`hermit_memory::stack_slots`): 256 times the memory, enough
/// for as many stacks of 1 MiB as there are 8 KiB of memory.
const OWN_MAPPINGS: (u64, u64) = (384, 4 << 30);

/// Maximum size of the addresses for the kernel's own mappings in bytes. The rest of their range leaves room
/// for a random start.
const MAX_OWN_MAPPINGS: u64 = 96 * TOP_ENTRY_SIZE;

/// Random numbers for the randomised addresses, one for each.
#[derive(Clone, Copy, Debug)]
pub struct Randomness {
    /// For the start of the image.
    pub image: u64,
    /// For the start of the direct map.
    pub direct_map: u64,
    /// For the start of the kernel's own mappings.
    pub free_addresses: u64,
}

/// Virtual address of the image.
pub(crate) fn image_start(random: u64, align: u64) -> u64 {
    let start = TOP_ENTRY_SIZE + random % (62 * TOP_ENTRY_SIZE - MAX_SIZE);
    start & !(align - 1)
}

/// Virtual address of the direct map.
pub(crate) fn direct_map_start(random: u64) -> u64 {
    (64 + random % 32) * TOP_ENTRY_SIZE
}

/// Size of the virtual addresses for the kernel's own mappings on a machine with `memory` bytes of physical
/// memory.
fn own_mappings_size(memory: u64) -> u64 {
    let size = memory.saturating_mul(OWN_MAPPINGS.0).saturating_add(OWN_MAPPINGS.1);
    size.min(MAX_OWN_MAPPINGS) & !(PAGE_SIZE - 1)
}

/// Virtual addresses for the kernel's own mappings on a machine with `memory` bytes of physical memory.
pub(crate) fn free_addresses(random: u64, memory: u64) -> Region {
    let size = own_mappings_size(memory);
    let start = 128 * TOP_ENTRY_SIZE + ((random % (127 * TOP_ENTRY_SIZE - size)) & !(PAGE_SIZE - 1));
    Region { start, size }
}

#[cfg(test)]
mod tests {
    use super::{TOP_ENTRY_SIZE, direct_map_start, free_addresses, image_start};
    use hermit_interface::image::MAX_SIZE;

    #[test]
    fn layout_stays_in_its_top_level_entries() {
        for random in [0, 1, u64::MAX, u64::MAX / 3, 1 << 45, (62 * TOP_ENTRY_SIZE - MAX_SIZE) - 1] {
            for align in [4096, 1 << 21, 1 << 30] {
                let start = image_start(random, align);
                assert!(
                    start >= TOP_ENTRY_SIZE
                        && start + MAX_SIZE <= 63 * TOP_ENTRY_SIZE
                        && start.is_multiple_of(align)
                );
            }
            let start = direct_map_start(random);
            assert!(
                (64 * TOP_ENTRY_SIZE..128 * TOP_ENTRY_SIZE).contains(&start)
                    && start.is_multiple_of(TOP_ENTRY_SIZE)
            );
            for memory in [0, 16 << 20, 4 << 30, 512 << 30, 1 << 50, u64::MAX] {
                let free = free_addresses(random, memory);
                assert!(
                    free.start >= 128 * TOP_ENTRY_SIZE
                        && free.end() <= 255 * TOP_ENTRY_SIZE
                        && free.start.is_multiple_of(4096)
                        && free.size.is_multiple_of(4096)
                );
            }
        }
    }

    #[test]
    fn own_mappings_are_proportional_to_memory() {
        let size = |memory| free_addresses(1 << 45, memory).size;
        assert_eq!(size(64 << 20), 28 << 30);
        assert_eq!(size(4 << 30), 1540 << 30);
        assert_eq!(size(1 << 60), 96 * TOP_ENTRY_SIZE);
    }
}
