//! A guest's driver of virtio devices on the MMIO transport (virtio 1.2 §4.2), for valid and malformed queues.

use hermit_interface::machine::HOLE;
use iced_x86::code_asm::{dword_ptr, eax, rax, rbx, rdx, rsi, word_ptr};

use crate::guest::{Assembled, GuestBuilder};

/// Flags of a descriptor (virtio 1.2 §2.7.5).
pub(crate) const NEXT: u16 = 1;
pub(crate) const WRITE: u16 = 2;
pub(crate) const INDIRECT: u16 = 4;

/// `Status` of a live device (virtio 1.2 §2.1).
pub(crate) const DRIVER_OK: u32 = 1 | 2 | 4 | 8;

/// Offsets of `QueueNotify` and `Status`.
pub(crate) const NOTIFY: u64 = 0x50;
pub(crate) const STATUS: u64 = 0x70;

/// Features that the driver accepts: indirect descriptors, version 1.
const FEATURES: [u32; 2] = [1 << 28, 1];

/// Limit of the wait for a used chain, in ticks of the TSC: tens of seconds.
const USED_TIMEOUT: u64 = 60_000_000_000;

/// A descriptor: address, length, flags, next.
pub(crate) type Descriptor = (u64, u32, u16, u16);

/// A queue, by the numbers of its device and in its device.
#[derive(Clone, Copy)]
pub(crate) struct Queue {
    pub(crate) device: u32,
    pub(crate) index: u32,
}

impl Queue {
    pub(crate) const INPUT: Self = Self { device: 0, index: 0 };
    pub(crate) const OUTPUT: Self = Self { device: 0, index: 1 };
    pub(crate) const RANDOM: Self = Self { device: 1, index: 0 };
    pub(crate) const DISK: Self = Self { device: 2, index: 0 };
    /// Network device, which follows the disk. Missing if the host cannot create TAP interfaces.
    pub(crate) const RECEIVEQ: Self = Self { device: 3, index: 0 };
    pub(crate) const TRANSMITQ: Self = Self { device: 3, index: 1 };

    /// Guest physical address of a register of the device.
    pub(crate) fn register(self, offset: u64) -> u64 {
        HOLE.start + u64::from(self.device) * 0x1000 + offset
    }
}

/// Size of a queue and addresses of its parts.
#[derive(Clone, Copy)]
pub(crate) struct Rings {
    pub(crate) size: u32,
    pub(crate) descriptors: u64,
    pub(crate) available: u64,
    pub(crate) used: u64,
}

impl Rings {
    /// A valid layout at `start`.
    pub(crate) const fn at(start: u64) -> Self {
        Self { size: 8, descriptors: start, available: start + 0x200, used: start + 0x400 }
    }
}

impl GuestBuilder {
    /// Resets a device and initialises it with one queue.
    pub(crate) fn set_up(&mut self, queue: Queue, rings: Rings) -> Assembled {
        for status in [0, 1, 3] {
            self.write32(queue.register(STATUS), status)?;
        }
        for (page, bits) in (0..).zip(FEATURES) {
            self.write32(queue.register(0x24), page)?;
            self.write32(queue.register(0x20), bits)?;
        }
        self.write32(queue.register(STATUS), 1 | 2 | 8)?;
        self.write32(queue.register(0x30), queue.index)?;
        self.write32(queue.register(0x38), rings.size)?;
        for (low, address) in [(0x80, rings.descriptors), (0x90, rings.available), (0xa0, rings.used)] {
            let [a, b, c, d, e, f, g, h] = address.to_le_bytes();
            self.write32(queue.register(low), u32::from_le_bytes([a, b, c, d]))?;
            self.write32(queue.register(low + 4), u32::from_le_bytes([e, f, g, h]))?;
        }
        self.write32(queue.register(0x44), 1)?;
        self.write32(queue.register(STATUS), DRIVER_OK)
    }

    /// Writes descriptors to the table at `table`.
    pub(crate) fn describe(&mut self, table: u64, descriptors: &[Descriptor]) -> Assembled {
        for (entry, &(address, length, flags, next)) in (table..).step_by(16).zip(descriptors) {
            self.write64(entry, address)?;
            self.write32(entry + 8, length)?;
            self.write16(entry + 12, flags)?;
            self.write16(entry + 14, next)?;
        }
        Ok(())
    }

    /// Writes chain heads and the index to the available ring, and notifies the device.
    pub(crate) fn offer(&mut self, queue: Queue, rings: Rings, heads: &[u16], index: u16) -> Assembled {
        for (entry, &head) in (rings.available + 4..).step_by(2).zip(heads) {
            self.write16(entry, head)?;
        }
        self.write16(rings.available + 2, index)?;
        self.write32(queue.register(NOTIFY), queue.index)
    }

    /// Reads the device's status `times` times. Each read waits for the device's lock, and so until a queue is processed.
    pub(crate) fn linger(&mut self, queue: Queue, times: u32) -> Assembled {
        self.code.mov(rbx, queue.register(STATUS))?;
        self.repeat(times, |guest| guest.code.mov(eax, dword_ptr(rbx)))
    }

    /// Spins until the used index is `count`. Exits with status 1 after [`USED_TIMEOUT`].
    pub(crate) fn wait_for(&mut self, rings: Rings, count: u16) -> Assembled {
        let (mut again, mut done) = (self.code.create_label(), self.code.create_label());
        self.read_tsc()?;
        self.code.mov(rsi, USED_TIMEOUT)?;
        self.code.add(rsi, rax)?;
        self.code.mov(rbx, rings.used + 2)?;
        self.code.set_label(&mut again)?;
        self.code.cmp(word_ptr(rbx), u32::from(count))?;
        self.code.je(done)?;
        self.read_tsc()?;
        self.code.cmp(rax, rsi)?;
        self.code.jb(again)?;
        self.exit(1)?;
        self.code.set_label(&mut done)
    }

    /// Reads the TSC to rax.
    fn read_tsc(&mut self) -> Assembled {
        self.code.rdtsc()?;
        self.code.shl(rdx, 32u32)?;
        self.code.or(rax, rdx)
    }
}
