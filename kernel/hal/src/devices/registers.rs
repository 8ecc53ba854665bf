//! A window of device registers.

use core::ptr::NonNull;

use hermit_virtio::registers::DeviceRegisters;

use crate::platform::process;

/// Registers of a device, which nobody else has.
#[derive(Debug)]
pub struct Window {
    start: Place,
    size: usize,
}

/// Where registers are.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// At an address.
    Mapped(NonNull<u8>),
    /// At a physical address that only the hypervisor can reach.
    Called(u64),
}

// SAFETY: registers are accessed by single instructions, from whichever CPU.
unsafe impl Send for Window {}
// SAFETY: as above; the device takes one access after the other.
unsafe impl Sync for Window {}

/// What a register holds.
trait Value: Copy {
    /// From the first bytes of a word.
    fn from_word(word: u64) -> Self;
    /// As a word.
    fn into_word(self) -> u64;
}

macro_rules! value {
    ($($number:ty: $($byte:ident)+;)+) => {
        $(impl Value for $number {
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
}

impl Window {
    /// The registers that [`crate::memory::map_registers`] has mapped.
    pub(crate) fn mapped(start: NonNull<u8>, size: u64) -> Option<Self> {
        Some(Self { start: Place::Mapped(start), size: usize::try_from(size).ok()? })
    }

    /// Registers that are reached by asking the hypervisor.
    pub(crate) fn called(physical: u64, size: u64) -> Option<Self> {
        Some(Self { start: Place::Called(physical), size: usize::try_from(size).ok()? })
    }

    /// Checks that there is a register.
    ///
    /// # Panics
    ///
    /// If it is not in the window.
    fn check<T>(&self, offset: usize) {
        let end = offset.checked_add(size_of::<T>());
        assert!(end.is_some_and(|end| end <= self.size), "a register of the window");
    }

    fn read<T: Value>(&self, offset: usize) -> T {
        self.check::<T>(offset);
        match self.start {
            Place::Mapped(start) => {
                // SAFETY: inside of the window (checked).
                let place = unsafe { start.add(offset) }.cast::<T>();
                assert!(place.is_aligned(), "registers are aligned");
                // SAFETY: mapped for good, without caching (`mapped`), inside and aligned (checked).
                unsafe { place.read_volatile() }
            }
            Place::Called(start) => {
                T::from_word(process::read_register(start + offset as u64, size_of::<T>()))
            }
        }
    }

    fn write<T: Value>(&self, offset: usize, value: T) {
        self.check::<T>(offset);
        match self.start {
            Place::Mapped(start) => {
                // SAFETY: as in `read`.
                let place = unsafe { start.add(offset) }.cast::<T>();
                assert!(place.is_aligned(), "registers are aligned");
                // SAFETY: as in `read`; what a driver has a device do with memory is confined to memory that it was given
                // for it.
                unsafe { place.write_volatile(value) };
            }
            Place::Called(start) => {
                process::write_register(start + offset as u64, size_of::<T>(), value.into_word());
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
