//! A guest's driver for virtio devices on the MMIO transport (virtio 1.2 §4.2).

use iced_x86::code_asm::{ax, dword_ptr, eax, ecx, qword_ptr, r12, r15, rax, rdi, rdx, rsi, word_ptr};

use super::{Assembled, Machine};

/// Flags of a descriptor (virtio 1.2 §2.7.5).
pub(crate) const NEXT: u16 = 1;
pub(crate) const WRITE: u16 = 2;
pub(crate) const INDIRECT: u16 = 4;

/// `Status` of a live device (virtio 1.2 §2.1).
pub(crate) const DRIVER_OK: u32 = 1 | 2 | 4 | 8;

/// Offsets of `QueueReady`, `QueueNotify` and `Status`.
pub(crate) const READY: u64 = 0x44;
pub(crate) const NOTIFY: u64 = 0x50;
pub(crate) const STATUS: u64 = 0x70;

/// Features that the driver accepts: indirect descriptors, version 1.
const FEATURES: [u32; 2] = [1 << 28, 1];

/// Time limit of the wait for a used chain, in ticks of the TSC: a few minutes.
const USED_TIMEOUT: u64 = 600_000_000_000;

/// Memory for virtqueues and buffers, 192 KiB.
pub(crate) const BUFFERS: u32 = 0x9_0000;

/// A descriptor: address, length, flags, next.
pub(crate) type Descriptor = (u64, u32, u16, u16);

/// A virtqueue: the number of its device, and its index in the device. The numbers assume one disk.
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
    /// The network device follows the disk. It is missing if the host cannot create TAP interfaces.
    pub(crate) const RECEIVEQ: Self = Self { device: 3, index: 0 };
    pub(crate) const TRANSMITQ: Self = Self { device: 3, index: 1 };
}

/// Size of a queue and guest physical addresses of its parts.
#[derive(Clone, Copy)]
pub(crate) struct Rings {
    pub(crate) size: u32,
    pub(crate) descriptors: u64,
    pub(crate) available: u64,
    pub(crate) used: u64,
}

impl Rings {
    /// Returns a valid layout at `start`, with a size of 1.5 KiB.
    pub(crate) const fn at(start: u32) -> Self {
        let start = start as u64;
        Self { size: 8, descriptors: start, available: start + 0x200, used: start + 0x400 }
    }
}

/// Emits instructions of the guest. They may change rax, rcx, rdx, rsi and rdi, and the registers that system
/// calls change.
pub(crate) struct Driver<'a, M>(pub(crate) &'a mut M);

impl<M: Machine> Driver<'_, M> {
    /// Writes a 16-bit value at a physical address.
    pub(super) fn write16(&mut self, address: u32, value: u16) -> Assembled {
        self.0.code().mov(eax, u32::from(value))?;
        self.0.code().mov(word_ptr(r15 + address), ax)
    }

    /// Writes a 32-bit value at a physical address.
    fn write32(&mut self, address: u32, value: u32) -> Assembled {
        self.0.code().mov(eax, value)?;
        self.0.code().mov(dword_ptr(r15 + address), eax)
    }

    /// Writes a 64-bit value at a physical address.
    pub(super) fn write64(&mut self, address: u32, value: u64) -> Assembled {
        self.0.code().mov(rax, value)?;
        self.0.code().mov(qword_ptr(r15 + address), rax)
    }

    /// Zeroes memory in units of 8 bytes.
    pub(super) fn clear(&mut self, start: u32, size: u32) -> Assembled {
        let code = self.0.code();
        code.lea(rdi, qword_ptr(r15 + start))?;
        code.mov(ecx, size / 8)?;
        code.xor(eax, eax)?;
        code.rep().stosq()
    }

    /// Exits with a status.
    pub(super) fn exit(&mut self, status: u8) -> Assembled {
        self.0.code().mov(eax, u32::from(status))?;
        self.0.exit_with_al()
    }

    /// Repeats `body` `times` times. r12 counts from `times` down to 1.
    pub(crate) fn repeat(&mut self, times: u32, body: impl FnOnce(&mut Self) -> Assembled) -> Assembled {
        let mut again = self.0.code().create_label();
        self.0.code().push(r12)?;
        self.0.code().mov(r12, u64::from(times))?;
        self.0.code().set_label(&mut again)?;
        body(self)?;
        self.0.code().dec(r12)?;
        self.0.code().jne(again)?;
        self.0.code().pop(r12)
    }

    /// Resets a device and initialises it with one queue.
    pub(super) fn set_up(&mut self, queue: Queue, rings: Rings) -> Assembled {
        let mut set = |offset, value| self.0.write_register(queue.device, offset, value);
        for status in [0, 1, 3] {
            set(STATUS, status)?;
        }
        for (page, bits) in (0..).zip(FEATURES) {
            set(0x24, page)?;
            set(0x20, bits)?;
        }
        set(STATUS, 1 | 2 | 8)?;
        set(0x30, queue.index)?;
        set(0x38, rings.size)?;
        for (low, address) in [(0x80, rings.descriptors), (0x90, rings.available), (0xa0, rings.used)] {
            let [a, b, c, d, e, f, g, h] = address.to_le_bytes();
            set(low, u32::from_le_bytes([a, b, c, d]))?;
            set(low + 4, u32::from_le_bytes([e, f, g, h]))?;
        }
        set(READY, 1)?;
        set(STATUS, DRIVER_OK)
    }

    /// Writes descriptors to the table at `table`.
    pub(super) fn describe(&mut self, table: u32, descriptors: &[Descriptor]) -> Assembled {
        for (entry, &(address, length, flags, next)) in (table..).step_by(16).zip(descriptors) {
            self.write64(entry, address)?;
            self.write32(entry + 8, length)?;
            self.write16(entry + 12, flags)?;
            self.write16(entry + 14, next)?;
        }
        Ok(())
    }

    /// Writes chain heads and the index to the available ring at `start` + 0x200 ([`Rings::at`]), and
    /// notifies the device.
    pub(super) fn offer(&mut self, queue: Queue, start: u32, heads: &[u16], index: u16) -> Assembled {
        for (entry, &head) in (start + 0x204..).step_by(2).zip(heads) {
            self.write16(entry, head)?;
        }
        self.write16(start + 0x202, index)?;
        self.0.notify(queue.device, queue.index)
    }

    /// Reads the device's status `times` times. Each read waits for the device's lock, which the device holds
    /// while it processes a queue.
    pub(super) fn linger(&mut self, queue: Queue, times: u32) -> Assembled {
        self.repeat(times, |driver| driver.0.read_register(queue.device, STATUS))
    }

    /// Spins until the used index of the rings at `start` ([`Rings::at`]) is `count`. Exits with status 1
    /// after [`USED_TIMEOUT`].
    pub(super) fn wait_for(&mut self, start: u32, count: u16) -> Assembled {
        let (mut again, mut done) = (self.0.code().create_label(), self.0.code().create_label());
        self.read_tsc()?;
        let code = self.0.code();
        code.mov(rsi, USED_TIMEOUT)?;
        code.add(rsi, rax)?;
        code.set_label(&mut again)?;
        code.cmp(word_ptr(r15 + (start + 0x402)), u32::from(count))?;
        code.je(done)?;
        self.read_tsc()?;
        self.0.code().cmp(rax, rsi)?;
        self.0.code().jb(again)?;
        self.exit(1)?;
        self.0.code().set_label(&mut done)?;
        self.0.code().nop()
    }

    /// Reads the TSC into rax.
    fn read_tsc(&mut self) -> Assembled {
        let code = self.0.code();
        code.rdtsc()?;
        code.shl(rdx, 32u32)?;
        code.or(rax, rdx)
    }
}
