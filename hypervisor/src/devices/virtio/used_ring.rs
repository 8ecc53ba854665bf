//! The used ring: completed descriptor chains (virtio 1.2 §2.7.8), and the suppression of used buffer
//! notifications.

use std::sync::atomic::{Ordering, fence};

use virtio_bindings::virtio_ring::VRING_AVAIL_F_NO_INTERRUPT;
use virtio_queue::{Queue, QueueT};
use vm_memory::{Address, Bytes, GuestAddress, GuestMemoryMmap};

use super::DeviceError;

/// Size in bytes of a ring's fields before its elements: `flags` and `idx`.
const HEADER_SIZE: u64 = 4;

/// Size in bytes of an element of the available ring.
const AVAIL_ELEMENT_SIZE: u64 = 2;

/// Size in bytes of an element of the used ring.
const USED_ELEMENT_SIZE: u64 = 8;

/// An element of the used ring (`struct virtq_used_elem`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsedElement {
    /// `id`: index of the first descriptor of the chain.
    pub head: u16,
    /// `len`: number of bytes that the device has written to the chain.
    pub written: u32,
}

/// Adds several chains to the used ring at once: one write moves the index past all of them, so the driver
/// sees either all or none.
///
/// # Errors
///
/// The used ring is not in guest memory, or the last head is not a valid descriptor index.
pub fn add_used_batch(
    queue: &mut Queue,
    memory: &GuestMemoryMmap,
    used: &[UsedElement],
) -> Result<(), DeviceError> {
    let Some((last, others)) = used.split_last() else { return Ok(()) };
    for &UsedElement { head, written } in others {
        let index = u64::from(queue.next_used() % queue.size());
        let [a, b, c, d] = u32::from(head).to_le_bytes();
        let [e, f, g, h] = written.to_le_bytes();
        let element = at(queue.used_ring(), HEADER_SIZE + USED_ELEMENT_SIZE * index)?;
        memory.write_slice(&[a, b, c, d, e, f, g, h], element)?;
        queue.set_next_used(queue.next_used().wrapping_add(1));
    }
    // Writes the last element, and then the ring's index.
    Ok(queue.add_used(memory, last.head, last.written)?)
}

/// Returns true if the driver wants a used buffer notification for the chains that were added since the used
/// index was `before` (virtio 1.2 §2.7.7 and §2.7.10).
///
/// # Errors
///
/// The available ring is not in guest memory.
pub(super) fn needs_interrupt(
    queue: &Queue,
    memory: &GuestMemoryMmap,
    before: u16,
) -> Result<bool, DeviceError> {
    let now = queue.next_used();
    if now == before {
        return Ok(false);
    }
    // Orders the write of the used index before the read of the driver's suppression fields. It pairs with
    // the driver's barrier between its write of these fields and its check for more used chains.
    fence(Ordering::SeqCst);
    let ring = queue.avail_ring();
    if !queue.event_idx_enabled() {
        let flags = u16::from_le(memory.load(at(ring, 0)?, Ordering::Relaxed)?);
        return Ok(u32::from(flags) & VRING_AVAIL_F_NO_INTERRUPT == 0);
    }
    let used_event = HEADER_SIZE + AVAIL_ELEMENT_SIZE * u64::from(queue.size());
    let used_event = u16::from_le(memory.load(at(ring, used_event)?, Ordering::Relaxed)?);
    // The driver wants a notification if the used index has passed `used_event` since `before`. All indices
    // wrap around, so the differences are compared.
    Ok(now.wrapping_sub(used_event).wrapping_sub(1) < now.wrapping_sub(before))
}

fn at(ring: u64, offset: u64) -> Result<GuestAddress, DeviceError> {
    GuestAddress(ring).checked_add(offset).ok_or(DeviceError::RingAddress)
}

#[cfg(test)]
mod tests {
    use super::{UsedElement, add_used_batch, needs_interrupt};
    use crate::devices::virtio::test_utils::TestDriver;
    use proptest::prelude::*;
    use virtio_queue::QueueT;

    #[test]
    fn used_batch_keeps_order_across_the_end_of_the_ring() {
        let mut driver = TestDriver::new(8);
        let mut queue = driver.queue();
        add_used_batch(&mut queue, &driver.memory, &[]).unwrap();
        assert!(driver.used().is_empty());
        for _ in 0..5 {
            let used: Vec<_> =
                (0..5_u16).map(|head| UsedElement { head, written: u32::from(head) * 0x1_0001 }).collect();
            add_used_batch(&mut queue, &driver.memory, &used).unwrap();
            let expected: Vec<(u32, u32)> =
                used.iter().map(|used| (used.head.into(), used.written)).collect();
            assert_eq!(driver.used(), expected);
        }
        assert_eq!(queue.next_used(), 25);
    }

    #[test]
    fn used_batch_with_an_invalid_head_is_an_error() {
        let driver = TestDriver::new(8);
        let mut queue = driver.queue();
        assert!(
            add_used_batch(&mut queue, &driver.memory, &[0, 8].map(|head| UsedElement { head, written: 0 }))
                .is_err()
        );
        assert_eq!(driver.used_index(), 0);
    }

    #[test]
    fn without_event_index_the_flag_suppresses_interrupts() {
        let driver = TestDriver::new(8);
        let mut queue = driver.queue();
        assert!(!needs_interrupt(&queue, &driver.memory, 0).unwrap());
        queue.add_used(&driver.memory, 0, 0).unwrap();
        for (flags, wanted) in [(0, true), (1, false), (2, true)] {
            driver.set_available_flags(flags);
            assert_eq!(needs_interrupt(&queue, &driver.memory, 0).unwrap(), wanted);
        }
    }

    proptest! {
        /// An interrupt is due if and only if the element at the event index is among the new elements.
        #[test]
        fn interrupt_is_due_once_the_event_index_is_passed(before: u16, count in 1u16..=8, ahead in 0u16..20) {
            let driver = TestDriver::new(8);
            let mut queue = driver.queue();
            queue.set_event_idx(true);
            queue.set_next_used(before);
            (0..count).for_each(|_| queue.add_used(&driver.memory, 0, 0).unwrap());
            driver.set_used_event(before.wrapping_add(ahead).wrapping_sub(5));
            let is_new = (5..5 + count).contains(&ahead);
            prop_assert_eq!(needs_interrupt(&queue, &driver.memory, before).unwrap(), is_new);
        }
    }
}
