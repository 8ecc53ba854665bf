//! The seam to memory that is used in place, without copies; the hal implements it. And spans of it, which have one owner.
//!
//! An arena is mapped twice, the second copy right behind the first: whatever begins in the first one is contiguous, also
//! if it goes on at the arena's start. For the device it is there once.

#[cfg(test)]
mod tests;

use alloc::sync::Arc;
use core::fmt::Debug;
use core::marker::PhantomData;
use core::ops::Range;

use super::Segment;

/// Memory whose bytes can be used in place while the device does not have them.
///
/// The hal implements it over physically contiguous pages, which are mapped twice in a row. Unlike with [`DmaMemory`]
/// there are references to bytes, one at a time to each: see [`Place`]. A device that writes to bytes which it has given
/// back can write to any memory, there is no IOMMU.
///
/// When the value is dropped the pages may be used anew; this crate has reset the device before that.
///
/// [`DmaMemory`]: super::DmaMemory
pub trait Arena: Debug {
    /// Bytes, counted once: a power of two.
    fn size(&self) -> usize;

    /// The address of the first byte as devices see it: the physical one, there is no IOMMU.
    fn device_address(&self) -> u64;

    /// Has `action` use the bytes at a place.
    fn with_bytes<R>(&self, place: Place<'_>, action: impl FnOnce(&mut [u8]) -> R) -> R;
}

/// Gives out arenas. The hal implements it; drivers call it only when they are made.
pub trait Arenas {
    /// What it gives out.
    type Arena: Arena;

    /// `size` bytes, a power of two and at least a page; `None` if there is no such memory.
    ///
    /// There may be anything in it: to touch all of it would cost time and memory when most of it may never be used.
    fn arena(&self, size: usize) -> Option<Self::Arena>;
}

/// Bytes of an arena that nobody else uses, neither the device nor another place, as long as this value lives.
///
/// Only this module makes places, for the owner of a [`Span`]: that is what an [`Arena`] relies on.
#[derive(Debug)]
pub struct Place<'span> {
    start: usize,
    length: usize,
    owner: PhantomData<&'span mut ()>,
}

impl Place<'_> {
    /// Where it begins: in the first copy.
    #[must_use]
    pub const fn start(&self) -> usize {
        self.start
    }

    /// How many bytes it has: at most as many as the arena.
    #[must_use]
    pub const fn length(&self) -> usize {
        self.length
    }
}

/// A part of an [`Arena`] that has one owner; it may go on at the arena's start.
///
/// As with [`Buffer`](super::Buffer), the value itself goes to the device and comes back: use after submission cannot be
/// written. No two spans overlap: they are parts of the one that [`Span::allocate`] made.
#[derive(Debug)]
pub struct Span<A> {
    arena: Arc<A>,
    start: usize,
    size: usize,
}

impl<A: Arena> Span<A> {
    /// A new arena, all of it, whatever is in it; `None` if there is no memory, or `size` is no power of two from a page up to 2 GiB.
    pub fn allocate(arenas: &impl Arenas<Arena = A>, size: usize) -> Option<Self> {
        u32::try_from(size).ok().filter(|size| size.is_power_of_two() && *size >= 4096)?;
        let arena = arenas.arena(size).filter(|arena| arena.size() == size)?;
        Some(Self { arena: Arc::new(arena), start: 0, size })
    }

    /// Bytes.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.size
    }

    /// Where in the arena it begins.
    #[must_use]
    pub const fn start(&self) -> usize {
        self.start
    }

    /// Where in the arena the next one begins.
    fn end(&self) -> usize {
        (self.start + self.size) & (self.arena.size() - 1)
    }

    /// Cuts off the first `size` bytes; `None` if there are not so many.
    pub fn split_front(&mut self, size: usize) -> Option<Self> {
        let rest = self.size.checked_sub(size)?;
        let front = Self { arena: self.arena.clone(), start: self.start, size };
        (self.start, self.size) = (front.end(), rest);
        Some(front)
    }

    /// Adds what comes right behind it.
    ///
    /// # Errors
    ///
    /// The other one comes back if it begins somewhere else.
    pub fn append(&mut self, next: Self) -> Result<(), Self> {
        if !self.is_followed_by(&next) {
            return Err(next);
        }
        self.size += next.size;
        Ok(())
    }

    /// Whether another one comes right behind it.
    #[must_use]
    pub fn is_followed_by(&self, next: &Self) -> bool {
        Arc::ptr_eq(&self.arena, &next.arena) && next.start == self.end()
    }

    /// Has `action` use its bytes.
    pub fn with_bytes<R>(&mut self, action: impl FnOnce(&mut [u8]) -> R) -> R {
        let place = Place { start: self.start, length: self.size, owner: PhantomData };
        self.arena.with_bytes(place, action)
    }

    /// Has `action` use the bytes of several spans as one; `None` if there are none, or one is not right behind the other.
    pub fn with_joined<R>(spans: &mut [Self], action: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        let first = spans.first()?;
        if !spans.is_sorted_by(Self::is_followed_by) {
            return None;
        }
        // No more than there are in the arena: they do not overlap.
        let length = spans.iter().map(Self::size).sum();
        let place = Place { start: first.start, length, owner: PhantomData };
        Some(first.arena.with_bytes(place, action))
    }

    /// A part of it for the device to read: one segment, or two if it goes on at the arena's start.
    pub fn readable(&self, range: Range<usize>) -> impl Iterator<Item = Segment> {
        self.segments(range, false)
    }

    /// A part of it for the device to write.
    pub fn writable(&self, range: Range<usize>) -> impl Iterator<Item = Segment> {
        self.segments(range, true)
    }

    /// A part of it, cut off at its end.
    fn segments(&self, range: Range<usize>, writable: bool) -> impl Iterator<Item = Segment> {
        let length = range.end.min(self.size).saturating_sub(range.start);
        let start = self.start.wrapping_add(range.start) & (self.arena.size() - 1);
        let before_end = length.min(self.arena.size() - start);
        let address = self.arena.device_address();
        // Neither conversion fails: an arena has less than 4 GiB.
        let segment = move |start, length| Segment {
            address: address + u64::try_from(start).unwrap_or_default(),
            length: u32::try_from(length).unwrap_or_default(),
            writable,
        };
        let parts = [segment(start, before_end), segment(0, length - before_end)];
        parts.into_iter().filter(|part| part.length > 0)
    }
}
