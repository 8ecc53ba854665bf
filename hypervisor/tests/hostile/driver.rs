//! What a driver writes to a virtio device behind registers (virtio 1.2, section 4.2), whether it makes sense or not.

use hermit_interface::machine::HOLE;
use iced_x86::code_asm::{dword_ptr, eax, rax, rbx, rdx, rsi, word_ptr};

use crate::guest::{Assembled, Guest};

/// Descriptor flags (section 2.7.5).
pub(crate) const NEXT: u16 = 1;
pub(crate) const WRITE: u16 = 2;
pub(crate) const INDIRECT: u16 = 4;

/// Device status (section 2.1) of a driver that is ready.
pub(crate) const READY: u32 = 1 | 2 | 4 | 8;

/// The registers that tests name.
pub(crate) const NOTIFY: u64 = 0x50;
pub(crate) const STATUS: u64 = 0x70;

/// Feature bits that every device here has: indirect tables, version 1.
const FEATURES: [u32; 2] = [1 << 28, 1];

/// How long a device may take, in ticks of the processor: some ten seconds.
const PATIENCE: u64 = 60_000_000_000;

/// A descriptor: address, length, flags, and the next one.
pub(crate) type Descriptor = (u64, u32, u16, u16);

/// The `n`-th device, and which queue of it.
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
    /// Behind a disk: nothing where the host cannot make taps.
    pub(crate) const RECEIVED: Self = Self { device: 3, index: 0 };
    pub(crate) const SENT: Self = Self { device: 3, index: 1 };

    /// The address of a register.
    pub(crate) fn register(self, offset: u64) -> u64 {
        HOLE.start + u64::from(self.device) * 0x1000 + offset
    }
}

/// Where a queue's parts lie.
#[derive(Clone, Copy)]
pub(crate) struct Rings {
    pub(crate) size: u32,
    pub(crate) descriptors: u64,
    pub(crate) available: u64,
    pub(crate) used: u64,
}

impl Rings {
    /// Rings of a driver that makes sense.
    pub(crate) const fn at(start: u64) -> Self {
        Self { size: 8, descriptors: start, available: start + 0x200, used: start + 0x400 }
    }
}

impl Guest {
    /// Resets a device and makes it ready with one queue.
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
        self.write32(queue.register(STATUS), READY)
    }

    /// Writes descriptors to a table.
    pub(crate) fn describe(&mut self, table: u64, descriptors: &[Descriptor]) -> Assembled {
        for (place, &(address, length, flags, next)) in (table..).step_by(16).zip(descriptors) {
            self.write64(place, address)?;
            self.write32(place + 8, length)?;
            self.write16(place + 12, flags)?;
            self.write16(place + 14, next)?;
        }
        Ok(())
    }

    /// Offers chains by their first descriptors, says that there are `index` so far, and notifies the device.
    pub(crate) fn offer(&mut self, queue: Queue, rings: Rings, heads: &[u16], index: u16) -> Assembled {
        for (place, &head) in (rings.available + 4..).step_by(2).zip(heads) {
            self.write16(place, head)?;
        }
        self.write16(rings.available + 2, index)?;
        self.write32(queue.register(NOTIFY), queue.index)
    }

    /// Gives the device time: reads its status, for which it must not be at work.
    pub(crate) fn linger(&mut self, queue: Queue, times: u32) -> Assembled {
        self.code.mov(rbx, queue.register(STATUS))?;
        self.repeat(times, |guest| guest.code.mov(eax, dword_ptr(rbx)))
    }

    /// Waits until the device has used so many chains; gives up after [`PATIENCE`], with the status 1.
    pub(crate) fn wait_for(&mut self, rings: Rings, count: u16) -> Assembled {
        let (mut again, mut done) = (self.code.create_label(), self.code.create_label());
        self.ticks()?;
        self.code.mov(rsi, PATIENCE)?;
        self.code.add(rsi, rax)?;
        self.code.mov(rbx, rings.used + 2)?;
        self.code.set_label(&mut again)?;
        self.code.cmp(word_ptr(rbx), u32::from(count))?;
        self.code.je(done)?;
        self.ticks()?;
        self.code.cmp(rax, rsi)?;
        self.code.jb(again)?;
        self.exit(1)?;
        self.code.set_label(&mut done)
    }

    /// The time stamp counter, in rax.
    fn ticks(&mut self) -> Assembled {
        self.code.rdtsc()?;
        self.code.shl(rdx, 32u32)?;
        self.code.or(rax, rdx)
    }
}
