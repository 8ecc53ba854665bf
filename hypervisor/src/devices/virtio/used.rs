//! The used ring: chains that go back to the guest (virtio 1.2, section 2.7.8), and whether it wants to hear of them.

use std::sync::atomic::{Ordering, fence};

use virtio_bindings::virtio_ring::VRING_AVAIL_F_NO_INTERRUPT;
use virtio_queue::{Queue, QueueT};
use vm_memory::{Address, Bytes, GuestAddress, GuestMemoryMmap};

use super::DeviceError;

/// Bytes of a ring before its entries: flags and index.
const HEADER: u64 = 4;

/// Bytes of an entry of the available and of the used ring.
const AVAILABLE: u64 = 2;
const USED: u64 = 8;

/// A chain that goes back: by which descriptor the guest knows it, and how many bytes the device has written into it.
pub type Used = (u16, u32);

/// Gives back chains that mean something only together: the guest sees all of them or none.
///
/// # Errors
///
/// The ring is no longer in memory, or there is no such descriptor.
pub fn give_back_together(
    queue: &mut Queue,
    memory: &GuestMemoryMmap,
    used: &[Used],
) -> Result<(), DeviceError> {
    let Some((&(head, length), others)) = used.split_last() else { return Ok(()) };
    for &(head, length) in others {
        let place = u64::from(queue.next_used() % queue.size());
        let [a, b, c, d] = u32::from(head).to_le_bytes();
        let [e, f, g, h] = length.to_le_bytes();
        memory.write_slice(&[a, b, c, d, e, f, g, h], at(queue.used_ring(), HEADER + USED * place)?)?;
        queue.set_next_used(queue.next_used().wrapping_add(1));
    }
    // This one moves the index of the ring past all of them.
    Ok(queue.add_used(memory, head, length)?)
}

/// Whether the guest wants an interrupt for what it got since the used index was `before` (sections 2.7.7 and 2.7.10).
///
/// # Errors
///
/// The rings are no longer in memory.
pub(super) fn wants_interrupt(
    queue: &Queue,
    memory: &GuestMemoryMmap,
    before: u16,
) -> Result<bool, DeviceError> {
    let now = queue.next_used();
    if now == before {
        return Ok(false);
    }
    // What was given back is visible before it is read which part of it the guest wants to hear of.
    fence(Ordering::SeqCst);
    let ring = queue.avail_ring();
    if !queue.event_idx_enabled() {
        let flags = u16::from_le(memory.load(at(ring, 0)?, Ordering::Relaxed)?);
        return Ok(u32::from(flags) & VRING_AVAIL_F_NO_INTERRUPT == 0);
    }
    let place = HEADER + AVAILABLE * u64::from(queue.size());
    let event = u16::from_le(memory.load(at(ring, place)?, Ordering::Relaxed)?);
    Ok(now.wrapping_sub(event).wrapping_sub(1) < now.wrapping_sub(before))
}

fn at(ring: u64, offset: u64) -> Result<GuestAddress, DeviceError> {
    GuestAddress(ring).checked_add(offset).ok_or(DeviceError::RingPlacement)
}

#[cfg(test)]
mod tests {
    use super::{give_back_together, wants_interrupt};
    use crate::devices::virtio::testing::Driver;
    use proptest::prelude::*;
    use virtio_queue::QueueT;

    #[test]
    fn chains_come_back_in_order_and_across_the_end_of_the_ring() {
        let mut driver = Driver::new(8);
        let mut queue = driver.queue();
        give_back_together(&mut queue, &driver.memory, &[]).unwrap();
        assert!(driver.used().is_empty());
        for _ in 0..5 {
            let used: Vec<_> = (0..5_u16).map(|head| (head, u32::from(head) * 0x1_0001)).collect();
            give_back_together(&mut queue, &driver.memory, &used).unwrap();
            let expected: Vec<_> = used.iter().map(|&(head, length)| (u32::from(head), length)).collect();
            assert_eq!(driver.used(), expected);
        }
        assert_eq!(queue.next_used(), 25);
    }

    #[test]
    fn a_descriptor_that_does_not_exist_does_not_come_back() {
        let driver = Driver::new(8);
        let mut queue = driver.queue();
        assert!(give_back_together(&mut queue, &driver.memory, &[(0, 0), (8, 0)]).is_err());
        assert_eq!(driver.used_index(), 0);
    }

    #[test]
    fn without_event_indices_a_flag_says_whether_interrupts_are_wanted() {
        let driver = Driver::new(8);
        let mut queue = driver.queue();
        assert!(!wants_interrupt(&queue, &driver.memory, 0).unwrap());
        queue.add_used(&driver.memory, 0, 0).unwrap();
        for (flags, wanted) in [(0, true), (1, false), (2, true)] {
            driver.set_available_flags(flags);
            assert_eq!(wants_interrupt(&queue, &driver.memory, 0).unwrap(), wanted);
        }
    }

    proptest! {
        /// An interrupt is wanted exactly if the entry at the event index is among the new ones.
        #[test]
        fn an_interrupt_is_wanted_if_the_event_index_was_passed(before: u16, count in 1u16..=8, ahead in 0u16..20) {
            let driver = Driver::new(8);
            let mut queue = driver.queue();
            queue.set_event_idx(true);
            queue.set_next_used(before);
            (0..count).for_each(|_| queue.add_used(&driver.memory, 0, 0).unwrap());
            driver.set_used_event(before.wrapping_add(ahead).wrapping_sub(5));
            let is_new = (5..5 + count).contains(&ahead);
            prop_assert_eq!(wants_interrupt(&queue, &driver.memory, before).unwrap(), is_new);
        }
    }
}
