//! DMA memory: ranges of one vector of pages, whose addresses start far from 0.

use core::fmt::{self, Debug, Formatter};
use core::ops::Range;
use std::boxed::Box;
use std::sync::{Arc, Mutex, MutexGuard};
use std::vec;
use std::vec::Vec;

use crate::dma::{DmaAllocator, DmaMemory, DmaPermit};

/// DMA address of the first byte.
const BASE: u64 = 0x1_2345_0000;

const PAGE: usize = 4096;

/// Recorded events, for tests of their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeviceEvent {
    Status(u8),
    Freed,
    Fence,
    Notified(u16),
}

/// Action of the device during the driver's next barrier, that is between the driver's store and its load.
#[derive(Default)]
struct AtFence(Option<Box<dyn FnOnce() + Send>>);

impl Debug for AtFence {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "AtFence({})", self.0.is_some())
    }
}

/// All memory that the device can access, and the recorded events.
#[derive(Clone, Debug, Default)]
pub(crate) struct GuestMemory {
    /// Each page is an allocation of its own. Miri records each reference in every byte to which it refers,
    /// so a reference to all of memory for each small access would take minutes.
    pages: Arc<Mutex<Vec<Box<[u8; PAGE]>>>>,
    events: Arc<Mutex<Vec<DeviceEvent>>>,
    at_fence: Arc<Mutex<AtFence>>,
}

impl GuestMemory {
    fn pages(&self) -> MutexGuard<'_, Vec<Box<[u8; PAGE]>>> {
        self.pages.lock().unwrap()
    }

    fn read_at(&self, start: usize, bytes: &mut [u8]) {
        let pages = self.pages();
        for (page, part, place) in pieces(start, bytes.len()) {
            bytes[place].copy_from_slice(&pages[page][part]);
        }
    }

    fn write_at(&self, start: usize, bytes: &[u8]) {
        let mut pages = self.pages();
        for (page, part, place) in pieces(start, bytes.len()) {
            pages[page][part].copy_from_slice(&bytes[place]);
        }
    }

    pub(crate) fn log(&self, event: DeviceEvent) {
        self.events.lock().unwrap().push(event);
    }

    /// Events since the last call.
    pub(crate) fn events(&self) -> Vec<DeviceEvent> {
        core::mem::take(&mut self.events.lock().unwrap())
    }

    /// Clears the events and reserves capacity, so that recording does not allocate for a while.
    pub(crate) fn make_room_for_events(&self) {
        let mut events = self.events.lock().unwrap();
        events.clear();
        events.reserve(4096);
    }

    /// Runs `action` at the driver's next barrier.
    pub(crate) fn at_fence(&self, action: impl FnOnce() + Send + 'static) {
        self.at_fence.lock().unwrap().0 = Some(Box::new(action));
    }

    pub(crate) fn read(&self, address: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.read_at(usize::try_from(address - BASE).unwrap(), &mut bytes);
        bytes
    }

    pub(crate) fn write(&self, address: u64, bytes: &[u8]) {
        self.write_at(usize::try_from(address - BASE).unwrap(), bytes);
    }

    pub(crate) fn read_u16(&self, address: u64) -> u16 {
        u16::from_le_bytes(self.read(address, 2).try_into().unwrap())
    }

    pub(crate) fn write_u16(&self, address: u64, value: u16) {
        self.write(address, &value.to_le_bytes());
    }
}

/// Splits an access into accesses to single pages. Each item is the page's index, the range in the page, and
/// the range in the accessed bytes.
fn pieces(start: usize, length: usize) -> impl Iterator<Item = (usize, Range<usize>, Range<usize>)> {
    (start / PAGE..(start + length).div_ceil(PAGE)).map(move |page| {
        let first = start.max(page * PAGE);
        let end = (start + length).min((page + 1) * PAGE);
        (page, first - page * PAGE..end - page * PAGE, first - start..end - start)
    })
}

/// Allocates from the memory, as long as at most `free_pages` pages of 4 KiB are allocated at the same time.
#[derive(Debug)]
pub(crate) struct FakeDma {
    pub(crate) memory: GuestMemory,
    free_pages: Arc<Mutex<usize>>,
    /// Number of values that can still be shared.
    shares: Mutex<usize>,
}

impl FakeDma {
    pub(crate) fn new(memory: &GuestMemory, free_pages: usize) -> Self {
        let free_pages = Arc::new(Mutex::new(free_pages));
        Self { memory: memory.clone(), free_pages, shares: Mutex::new(usize::MAX) }
    }

    /// Limits the number of values that can be shared to `shares`.
    pub(crate) fn with_shares(self, shares: usize) -> Self {
        Self { shares: Mutex::new(shares), ..self }
    }
}

impl DmaAllocator for FakeDma {
    type Memory = FakeMemory;

    fn allocate(&self, size: usize, permit: &DmaPermit) -> Option<FakeMemory> {
        let needed = size.div_ceil(PAGE);
        let mut free_pages = self.free_pages.lock().unwrap();
        *free_pages = free_pages.checked_sub(needed)?;
        let mut pages = self.memory.pages();
        let start = pages.len() * PAGE;
        pages.extend((0..needed).map(|_| Box::new([0; PAGE])));
        Some(FakeMemory {
            memory: self.memory.clone(),
            free_pages: self.free_pages.clone(),
            start,
            size: needed * PAGE,
            permit: permit.clone(),
        })
    }

    fn share<V>(&self, value: V) -> Option<Arc<V>> {
        let mut shares = self.shares.lock().unwrap();
        *shares = shares.checked_sub(1)?;
        Some(Arc::new(value))
    }
}

#[derive(Debug)]
pub(crate) struct FakeMemory {
    memory: GuestMemory,
    /// Number of pages that can still be allocated.
    free_pages: Arc<Mutex<usize>>,
    start: usize,
    size: usize,
    permit: DmaPermit,
}

impl FakeMemory {
    /// Position of an access in the memory. Panics if the access lies outside the allocation.
    fn place(&self, offset: usize, length: usize) -> usize {
        assert!(offset + length <= self.size, "{offset}+{length} is outside");
        self.start + offset
    }
}

// SAFETY: the bytes are a part of the vector that is never given to another value; the device's model
// accesses the vector and no other memory.
#[expect(unsafe_code, reason = "the model of the kernel's memory")]
unsafe impl DmaMemory for FakeMemory {
    fn size(&self) -> usize {
        self.size
    }

    fn device_address(&self) -> u64 {
        BASE + u64::try_from(self.start).unwrap()
    }

    fn read(&self, offset: usize, bytes: &mut [u8]) {
        self.memory.read_at(self.place(offset, bytes.len()), bytes);
    }

    fn write(&self, offset: usize, bytes: &[u8]) {
        self.memory.write_at(self.place(offset, bytes.len()), bytes);
    }

    fn load_acquire(&self, offset: usize) -> u16 {
        assert_eq!(offset % 2, 0);
        let mut bytes = [0; 2];
        self.read(offset, &mut bytes);
        u16::from_le_bytes(bytes)
    }

    fn store_release(&self, offset: usize, value: u16) {
        assert_eq!(offset % 2, 0);
        self.write(offset, &value.to_le_bytes());
    }

    fn fence(&self) {
        self.memory.log(DeviceEvent::Fence);
        let action = self.memory.at_fence.lock().unwrap().0.take();
        if let Some(action) = action {
            action();
        }
    }
}

impl Drop for FakeMemory {
    fn drop(&mut self) {
        if self.permit.is_granted() {
            return;
        }
        *self.free_pages.lock().unwrap() += self.size / PAGE;
        self.memory.log(DeviceEvent::Freed);
    }
}
