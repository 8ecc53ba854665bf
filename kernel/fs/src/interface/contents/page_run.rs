//! Pages that a request fills, before they are cached.

use alloc::vec::Vec;

use hermit_interface::to_usize;

use super::{PAGE_BYTES, range, rest_of_page};
use crate::interface::file_system::ReadTarget;
use crate::interface::{PAGE_SIZE, System};

/// Consecutive bytes of a file from the start of a page on. Each page is allocated when its first byte
/// arrives.
#[derive(Debug)]
pub(crate) struct PageRun<S: System> {
    /// Offset of the first byte in the file, a multiple of the page size.
    pub(super) start: u64,
    pub(super) pages: Vec<S::Page>,
    /// Number of bytes.
    size: usize,
    /// Maximum number of bytes.
    max_size: usize,
    /// True if the file ends after the last byte.
    is_end: bool,
    /// True if a page could not be allocated.
    is_out_of_memory: bool,
}

impl<S: System> PageRun<S> {
    /// Creates an empty run with room for all pages from that of the offset `start` to that of the byte
    /// before `end`, which is after `start`. Returns `None` without memory.
    pub(crate) fn new(start: u64, end: u64) -> Option<Self> {
        let start = start - start % PAGE_BYTES;
        let max_size = to_usize(end.checked_next_multiple_of(PAGE_BYTES)? - start);
        let mut pages = Vec::new();
        pages.try_reserve_exact(max_size / PAGE_SIZE).ok()?;
        Some(Self { start, pages, size: 0, max_size, is_end: false, is_out_of_memory: false })
    }

    /// Offset of the first byte in the file.
    pub(crate) const fn start(&self) -> u64 {
        self.start
    }

    /// Offset after the last byte in the file.
    pub(crate) const fn end(&self) -> u64 {
        self.start + self.size as u64
    }

    /// Number of bytes.
    pub(crate) const fn size(&self) -> usize {
        self.size
    }

    /// Notes how many bytes were asked for. If the run has fewer, the file ends after it.
    pub(crate) const fn note_requested(&mut self, size: usize) {
        self.is_end = self.size < size && !self.is_out_of_memory;
    }

    /// Returns true if the file ends after the run.
    pub(crate) const fn is_end(&self) -> bool {
        self.is_end
    }

    /// Appends the bytes from an offset in the file on to `target`. Returns their number.
    pub(crate) fn copy_to(&self, offset: u64, target: &mut dyn ReadTarget) -> u64 {
        let (before, mut offset) = (offset, offset.max(self.start));
        while offset < self.end() && target.room() > 0 {
            let size = rest_of_page(offset).min(to_usize(self.end() - offset));
            let Some(page) = self.pages.get(to_usize(offset - self.start) / PAGE_SIZE) else { break };
            offset += target.append(page.as_ref().get(range(offset, size)).unwrap_or_default()) as u64;
        }
        offset - before
    }

    /// Appends bytes that lie within one page. Returns false without memory.
    fn append_in_page(&mut self, bytes: &[u8]) -> bool {
        let place = range(self.end(), bytes.len());
        if place.start > 0 {
            let page = self.pages.last_mut().and_then(|page| page.as_mut().get_mut(place));
            return page.map(|page| page.copy_from_slice(bytes)).is_some();
        }
        let page = S::allocate_page(bytes);
        self.is_out_of_memory = page.is_none();
        // The vector has room for all pages.
        page.map(|page| self.pages.push(page)).is_some()
    }
}

impl<S: System> ReadTarget for PageRun<S> {
    fn room(&self) -> usize {
        if self.is_out_of_memory { 0 } else { self.max_size - self.size }
    }

    fn append(&mut self, bytes: &[u8]) -> usize {
        let bytes = bytes.get(..self.room()).unwrap_or(bytes);
        let mut rest = bytes;
        while !rest.is_empty() {
            let (next, after) = rest.split_at(rest.len().min(rest_of_page(self.end())));
            if !self.append_in_page(next) {
                break;
            }
            self.size += next.len();
            rest = after;
        }
        bytes.len() - rest.len()
    }
}
