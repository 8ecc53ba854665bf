//! A window of device registers.

use hermit_virtio::registers::DeviceRegisters;

use crate::ops::RegisterAccess;

/// A window of device registers.
#[derive(Debug)]
pub struct Window {
    access: RegisterAccess,
    size: usize,
}

// SAFETY: registers are mapped on all CPUs and not bound to a thread.
unsafe impl Send for Window {}
// SAFETY: each access is a single volatile instruction or a single call; the device serializes concurrent
// ones.
unsafe impl Sync for Window {}

/// Value of a register.
trait RegisterValue: Copy {
    /// Makes a value of the low bytes of a word.
    fn from_word(word: u64) -> Self;
    /// Zero-extends the value to a word.
    fn into_word(self) -> u64;
}

macro_rules! value {
    ($($number:ty: $($byte:ident)+;)+) => {
        $(impl RegisterValue for $number {
            fn from_word(word: u64) -> Self {
                let [$($byte,)+ ..] = word.to_le_bytes();
                Self::from_le_bytes([$($byte),+])
            }

            fn into_word(self) -> u64 {
                self.into()
            }
        })+
    };
}

value! {
    u8: a;
    u16: a b;
    u32: a b c d;
    u64: a b c d e f g h;
}

impl Window {
    /// The window of `size` bytes that starts where `access` does.
    pub(super) fn new(access: RegisterAccess, size: u64) -> Option<Self> {
        Some(Self { access, size: usize::try_from(size).ok()? })
    }

    /// Reads a register of 64 bits by one access.
    ///
    /// # Panics
    ///
    /// If it is not inside of the window, or not aligned.
    pub(crate) fn read_u64(&self, offset: usize) -> u64 {
        self.read(offset)
    }

    /// Checks that a register is inside of the window.
    ///
    /// # Panics
    ///
    /// If it is not.
    fn check<T>(&self, offset: usize) {
        let end = offset.checked_add(size_of::<T>());
        assert!(end.is_some_and(|end| end <= self.size), "a register of the window");
    }

    fn read<T: RegisterValue>(&self, offset: usize) -> T {
        self.check::<T>(offset);
        match self.access {
            RegisterAccess::Mapped(start) => {
                // SAFETY: the register is inside of the window (checked), and the whole window is mapped from
                // `start` on.
                let register = unsafe { start.add(offset) }.cast::<T>();
                assert!(register.is_aligned(), "registers are aligned");
                // SAFETY: the register is mapped uncached and stays so (`RegisterAccess::Mapped`), and is
                // aligned (asserted). Any bits are a value of `T`, an integer.
                unsafe { register.read_volatile() }
            }
            RegisterAccess::Called { io, start } => {
                T::from_word(io.read(start + offset as u64, size_of::<T>()))
            }
        }
    }

    fn write<T: RegisterValue>(&self, offset: usize, value: T) {
        self.check::<T>(offset);
        match self.access {
            RegisterAccess::Mapped(start) => {
                // SAFETY: the register is inside of the window (checked), and the whole window is mapped from
                // `start` on.
                let register = unsafe { start.add(offset) }.cast::<T>();
                assert!(register.is_aligned(), "registers are aligned");
                // SAFETY: the register is mapped uncached and stays so (`RegisterAccess::Mapped`), and is
                // aligned (asserted). The memory that a driver makes a device change is memory that it was
                // given for this, as `DmaMemory`, `MirroredMemory` or `FreeMemory`.
                unsafe { register.write_volatile(value) };
            }
            RegisterAccess::Called { io, start } => {
                io.write(start + offset as u64, size_of::<T>(), value.into_word());
            }
        }
    }
}

impl DeviceRegisters for Window {
    fn size(&self) -> usize {
        self.size
    }

    fn read_u8(&self, offset: usize) -> u8 {
        self.read(offset)
    }

    fn read_u16(&self, offset: usize) -> u16 {
        self.read(offset)
    }

    fn read_u32(&self, offset: usize) -> u32 {
        self.read(offset)
    }

    fn write_u8(&self, offset: usize, value: u8) {
        self.write(offset, value);
    }

    fn write_u16(&self, offset: usize, value: u16) {
        self.write(offset, value);
    }

    fn write_u32(&self, offset: usize, value: u32) {
        self.write(offset, value);
    }
}
