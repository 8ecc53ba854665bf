//! The entries of an epoll instance, and the list of entries that may be ready.
//!
//! An entry is in one of three phases ([`Phase`]): idle, ready or examined. An idle entry waits: its waker is
//! registered with its object. When the object changes, [`EntrySet::note_change`] puts the entry into the
//! ready list. A thread that scans the list takes an entry out ([`EntrySet::take_ready`]) and unlocks the
//! set. Then it examines the entry: it asks the object for its readiness, which registers the waker again. At
//! the end it reports the result ([`EntrySet::settle`]). A change of the object during the examination does
//! not put the entry into the list. Instead, the phase notes the change, and `settle` then appends the entry.
//!
//! Scans are numbered. An entry remembers the last scan that took it. So a scan takes each entry only once,
//! and ends even if entries return to the list.
//!
//! All operations are meant for use under a spinlock. They take constant time, except [`EntrySet::find`],
//! whose time grows with the number of entries of one descriptor number. They do not allocate memory, except
//! [`WakerQueue::add`] if there is more than one waiter.

use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::fmt::{self, Debug};
use core::task::Waker;

use hermit_abi::{EPOLLET, EPOLLEXCLUSIVE, EPOLLONESHOT};
use hermit_base::wait::WakerQueue;

use super::{Change, Event, MODES};
use crate::slot_map::{CHUNKS, Chunk, ChunkPlan, chunk_size, position};
use crate::{Object, SlotMap};

/// Number of an entry.
pub(super) type Number = usize;

/// State of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Waits for its object to change.
    Idle,
    /// In the ready list: its object must be examined.
    Ready,
    /// A thread examines the object. `woken` is true if the object has changed since the examination began.
    /// `modified` is true if the program has changed the entry since then, so the result of the examination
    /// is for the old events.
    Examined { woken: bool, modified: bool },
}

impl Phase {
    /// The phase when an examination begins.
    const EXAMINED: Self = Self::Examined { woken: false, modified: false };
}

/// A descriptor that is watched.
pub(super) struct Entry {
    pub(super) descriptor: i32,
    /// The open file description. The entry does not keep it open. After the description is closed, the entry
    /// is removed from the set.
    object: Weak<dyn Object>,
    /// True if the object is an epoll instance, too.
    is_nested: bool,
    /// The waker that is registered with the object, and the address of the waker's target. No other entry
    /// has the same address.
    pub(super) waker: Waker,
    address: usize,
    /// `EPOLL` bits. After a one-shot entry has delivered its event, only its bits in [`MODES`] are left.
    events: u32,
    data: u64,
    phase: Phase,
    /// Number of the last scan that took the entry to deliver its event, and of the last scan that took it
    /// only to look. A scan does not take the same entry again, so each scan ends.
    last_delivery: u64,
    last_look: u64,
    /// Neighbours in the ready list.
    previous: Option<Number>,
    next: Option<Number>,
    /// The next entry of the same descriptor number.
    next_of_descriptor: Option<Number>,
}

impl Debug for Entry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Entry").field("descriptor", &self.descriptor).finish_non_exhaustive()
    }
}

impl Examined {
    /// Creates the value for an entry with these `EPOLL` bits.
    pub(super) const fn new(
        (number, address, events): (Number, usize, u32),
        waker: Waker,
        object: Arc<dyn Object>,
    ) -> Self {
        Self { number, address, is_exclusive: events & EPOLLEXCLUSIVE != 0, waker, object }
    }
}

impl Entry {
    /// Creates an entry that the caller is about to examine.
    pub(super) fn new(
        descriptor: i32,
        object: &Arc<dyn Object>,
        is_nested: bool,
        (waker, address): (Waker, usize),
        event: Event,
    ) -> Self {
        Self {
            descriptor,
            object: Arc::downgrade(object),
            is_nested,
            waker,
            address,
            events: event.events,
            data: event.data,
            phase: Phase::EXAMINED,
            last_delivery: 0,
            last_look: 0,
            previous: None,
            next: None,
            next_of_descriptor: None,
        }
    }

    /// Returns the object, unless its last descriptor is closed.
    pub(super) fn object(&self) -> Option<Arc<dyn Object>> {
        self.object.upgrade()
    }

    /// Returns true if the object is an epoll instance, too.
    pub(super) const fn is_nested(&self) -> bool {
        self.is_nested
    }

    fn is_stale(&self) -> bool {
        self.object.strong_count() == 0
    }

    fn is_of(&self, object: &Arc<dyn Object>) -> bool {
        self.object.as_ptr().addr() == Arc::as_ptr(object).addr()
    }

    /// Returns true if neither this scan nor a later scan of the same kind has taken the entry.
    const fn is_new_to(&self, purpose: Purpose) -> bool {
        match purpose {
            Purpose::Look(scan) => self.last_look < scan,
            Purpose::Deliver(scan) => self.last_delivery < scan,
            Purpose::Enter => true,
        }
    }

    /// Begins an examination. The scan has taken the entry from the ready list.
    const fn begin_examination(&mut self, purpose: Purpose) {
        self.phase = Phase::EXAMINED;
        match purpose {
            Purpose::Look(scan) => self.last_look = scan,
            Purpose::Deliver(scan) => self.last_delivery = scan,
            Purpose::Enter => {}
        }
    }

    /// Returns true if the entry reports any event.
    const fn is_enabled(&self) -> bool {
        self.events & !MODES != 0
    }

    /// Returns the `EPOLL` bits that the program has asked for.
    pub(super) const fn events(&self) -> u32 {
        self.events
    }
}

/// An entry that the caller examines.
#[derive(Debug)]
pub(super) struct Examined {
    pub(super) number: Number,
    address: usize,
    /// True if a change of the object need not wake each instance that watches it.
    pub(super) is_exclusive: bool,
    pub(super) waker: Waker,
    pub(super) object: Arc<dyn Object>,
}

/// Result of [`EntrySet::take_ready`].
#[derive(Debug)]
pub(super) enum Taken {
    /// An entry to be examined.
    Entry(Examined),
    /// An entry whose description is closed. It is removed from the set. The caller drops it after it has
    /// released the lock.
    Stale(Entry),
}

/// Why a thread examines an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The entry is new, or its events have changed. If its object is ready, the entry is put into the ready
    /// list.
    Enter,
    /// The scan with this number only looks whether any entry is ready.
    Look(u64),
    /// The scan with this number delivers events.
    Deliver(u64),
}

/// Result of examining an entry's object.
#[derive(Debug)]
pub(super) struct Outcome {
    /// The event to report, if there is one.
    pub(super) event: Option<Event>,
    /// True if the waiters must be woken: the entry has returned to the ready list for a reason that they
    /// have not been woken for.
    pub(super) is_news: bool,
}

/// Memory that the set needs before an entry can be added.
#[derive(Debug)]
pub(super) enum Growth {
    /// A chunk of memory for entries.
    Entries(ChunkPlan),
    /// The chunk with this number, for the first entries of descriptor numbers.
    Descriptors(usize),
}

/// The memory of a [`Growth`].
#[derive(Debug)]
pub(super) enum Memory {
    Entries(Chunk<Entry>),
    Descriptors(usize, Vec<Option<Number>>),
}

impl Growth {
    /// Allocates the memory. Returns `None` if there is not enough.
    pub(super) fn allocate(self) -> Option<Memory> {
        match self {
            Self::Entries(plan) => plan.allocate().ok().map(Memory::Entries),
            Self::Descriptors(chunk) => {
                let mut heads = Vec::new();
                heads.try_reserve_exact(chunk_size(chunk)).ok()?;
                heads.resize(chunk_size(chunk), None);
                Some(Memory::Descriptors(chunk, heads))
            }
        }
    }
}

/// The entries of an instance, the ready list, and the tasks that wait for ready entries.
#[derive(Debug)]
pub(super) struct EntrySet {
    entries: SlotMap<Entry>,
    /// First entry of each descriptor number. The chunks have the same sizes as those of the entries.
    heads: [Vec<Option<Number>>; CHUNKS],
    /// Ends of the ready list.
    first: Option<Number>,
    last: Option<Number>,
    /// Number of scans so far.
    scans: u64,
    /// Number of entries that threads are examining.
    examined: usize,
    /// True if a scan that only looks found nothing ready while other threads were examining entries. These
    /// entries may turn out to be ready. Then the watchers must be woken.
    has_overlooked: bool,
    /// Number of entries whose object is an epoll instance.
    pub(super) nested: usize,
    /// Threads in `epoll_wait`. An event wakes one of them.
    pub(super) sleepers: WakerQueue,
    /// Tasks that wait for the instance itself to become readable.
    pub(super) watchers: WakerQueue,
}

impl EntrySet {
    pub(super) const fn new() -> Self {
        Self {
            entries: SlotMap::new(),
            heads: [const { Vec::new() }; CHUNKS],
            first: None,
            last: None,
            scans: 0,
            examined: 0,
            has_overlooked: false,
            nested: 0,
            sleepers: WakerQueue::new(),
            watchers: WakerQueue::new(),
        }
    }

    fn head_mut(&mut self, descriptor: i32) -> Option<&mut Option<Number>> {
        let (chunk, index) = position(usize::try_from(descriptor).ok()?);
        self.heads.get_mut(chunk)?.get_mut(index)
    }

    /// Returns the entry with a number, if there is one. Any number is allowed, so callers can iterate up to
    /// [`Self::bound`].
    pub(super) fn get(&self, number: Number) -> Option<&Entry> {
        self.entries.get(number)
    }

    /// Returns a number that is larger than the numbers of all entries.
    pub(super) fn bound(&self) -> Number {
        self.entries.bound()
    }

    /// Finds the entry of a descriptor and its open file description.
    pub(super) fn find(&self, descriptor: i32, object: &Arc<dyn Object>) -> Option<Number> {
        self.of_descriptor(descriptor, |entry| entry.is_of(object))
    }

    /// Finds the first entry of a descriptor number that meets a condition.
    fn of_descriptor(&self, descriptor: i32, condition: impl Fn(&Entry) -> bool) -> Option<Number> {
        let (chunk, index) = position(usize::try_from(descriptor).ok()?);
        let mut next = *self.heads.get(chunk)?.get(index)?;
        while let Some(number) = next {
            let entry = self.entries.get(number)?;
            if condition(entry) {
                return Some(number);
            }
            next = entry.next_of_descriptor;
        }
        None
    }

    /// Removes an entry of this descriptor number whose description is closed, and returns it. The caller
    /// drops the entry after it has released the lock.
    pub(super) fn remove_stale(&mut self, descriptor: i32) -> Option<Entry> {
        let number = self.of_descriptor(descriptor, Entry::is_stale)?;
        self.remove(number)
    }

    /// Takes the entry out of `new`, adds it to the set, and returns its number. The caller then examines the
    /// entry.
    ///
    /// # Errors
    ///
    /// The memory that the caller must add first, or `None` if there are too many entries. The entry is then
    /// still in `new`.
    pub(super) fn insert(&mut self, new: &mut Option<Entry>) -> Result<Number, Option<Growth>> {
        let Some(entry) = new.take() else { return Err(None) };
        let (descriptor, is_nested) = (entry.descriptor, entry.is_nested);
        if self.head_mut(descriptor).is_none() {
            *new = Some(entry);
            let chunk = usize::try_from(descriptor).ok().map(|descriptor| position(descriptor).0);
            return Err(chunk.filter(|&chunk| chunk < CHUNKS).map(Growth::Descriptors));
        }
        let number = match self.entries.insert(entry) {
            Ok(number) => number,
            Err(entry) => {
                *new = Some(entry);
                return Err(self.entries.plan().map(Growth::Entries));
            }
        };
        let former = self.head_mut(descriptor).and_then(|head| head.replace(number));
        if let Some(entry) = self.entries.get_mut(number) {
            entry.next_of_descriptor = former;
        }
        self.examined += 1;
        self.nested += usize::from(is_nested);
        Ok(number)
    }

    /// Adds memory. Returns the memory if it is not needed any more. The caller frees it after it has
    /// released the lock.
    pub(super) fn grow(&mut self, memory: Memory) -> Option<Memory> {
        match memory {
            Memory::Entries(chunk) => self.entries.grow(chunk).map(Memory::Entries),
            Memory::Descriptors(chunk, heads) => match self.heads.get_mut(chunk) {
                Some(vacant) if vacant.is_empty() => {
                    *vacant = heads;
                    None
                }
                _ => Some(Memory::Descriptors(chunk, heads)),
            },
        }
    }

    /// Removes and returns an entry. The caller drops the entry after it has released the lock.
    pub(super) fn remove(&mut self, number: Number) -> Option<Entry> {
        let (descriptor, phase) = self.entries.get(number).map(|entry| (entry.descriptor, entry.phase))?;
        self.leave_descriptor(descriptor, number);
        match phase {
            Phase::Ready => self.unlink(number),
            Phase::Examined { .. } => self.examined -= 1,
            Phase::Idle => {}
        }
        let entry = self.entries.remove(number)?;
        self.nested -= usize::from(entry.is_nested);
        Some(entry)
    }

    /// Removes an entry from the list of its descriptor number.
    fn leave_descriptor(&mut self, descriptor: i32, number: Number) {
        let next = self.entries.get(number).and_then(|entry| entry.next_of_descriptor);
        let before = self.of_descriptor(descriptor, |entry| entry.next_of_descriptor == Some(number));
        match before.and_then(|before| self.entries.get_mut(before)) {
            Some(before) => before.next_of_descriptor = next,
            None => {
                if let Some(head) = self.head_mut(descriptor) {
                    *head = next;
                }
            }
        }
    }

    /// Changes the events and data of an entry. Returns the entry if the caller must examine it.
    pub(super) fn modify(&mut self, number: Number, event: Event) -> Option<Examined> {
        let entry = self.entries.get_mut(number)?;
        (entry.events, entry.data) = (event.events, event.data);
        match entry.phase {
            Phase::Idle => {
                let of = (number, entry.address, entry.events);
                let examined = Examined::new(of, entry.waker.clone(), entry.object()?);
                entry.phase = Phase::EXAMINED;
                self.examined += 1;
                Some(examined)
            }
            // A scan will examine the entry anyway, with the new events.
            Phase::Ready => None,
            // The entry must be examined again, with the new events. `woken` makes `settle` put it into the
            // ready list.
            Phase::Examined { .. } => {
                entry.phase = Phase::Examined { woken: true, modified: true };
                None
            }
        }
    }

    /// Notes that an entry's object has changed.
    pub(super) fn note_change(&mut self, number: Number, address: usize) -> Change {
        let entry = self.entries.get_mut(number).filter(|entry| entry.address == address);
        let Some(entry) = entry else { return Change::Unseen };
        match entry.phase {
            Phase::Idle if entry.is_enabled() => {
                self.append(number);
                Change::Queued
            }
            Phase::Idle => Change::Unseen,
            Phase::Ready => Change::Repeated,
            Phase::Examined { modified, .. } => {
                entry.phase = Phase::Examined { woken: true, modified };
                Change::Unseen
            }
        }
    }

    /// Begins a scan of the ready list. Returns the number of the scan.
    pub(super) const fn begin_scan(&mut self) -> u64 {
        self.scans += 1;
        self.scans
    }

    /// Returns true if the ready list has entries.
    pub(super) const fn has_ready(&self) -> bool {
        self.first.is_some()
    }

    /// Takes the first entry from the ready list. The caller examines it. Returns `None` if the list is
    /// empty, or if this scan or a later one has already taken the entry. If a scan only looks and gets
    /// `None`, the set remembers this: the next entry that returns to the list after an examination wakes the
    /// watchers.
    pub(super) fn take_ready(&mut self, purpose: Purpose) -> Option<Taken> {
        let entry = self.first.and_then(|number| self.entries.get(number));
        let entry = entry.filter(|entry| entry.is_new_to(purpose));
        let (Some(number), Some(entry)) = (self.first, entry) else {
            self.has_overlooked |= matches!(purpose, Purpose::Look(_)) && self.examined > 0;
            return None;
        };
        let Some(object) = entry.object() else { return self.remove(number).map(Taken::Stale) };
        let examined = Examined::new((number, entry.address, entry.events), entry.waker.clone(), object);
        self.unlink(number);
        if let Some(entry) = self.entries.get_mut(number) {
            entry.begin_examination(purpose);
        }
        self.examined += 1;
        Some(Taken::Entry(examined))
    }

    /// Ends the examination of an entry. `found` has the `EPOLL` bits that the object reported. Returns
    /// `None` if the entry was removed from the set.
    pub(super) fn settle(&mut self, examined: &Examined, found: u32, purpose: Purpose) -> Option<Outcome> {
        let number = examined.number;
        // The entry's waker keeps its target alive, so no other target can have the same address.
        let entry = self.entries.get_mut(number).filter(|entry| entry.address == examined.address)?;
        // Only one thread examines an entry at a time.
        let Phase::Examined { woken, modified } = entry.phase else { return None };
        entry.phase = Phase::Idle;
        let found = if modified { 0 } else { found };
        let events = if entry.is_enabled() { found & entry.events } else { 0 };
        let event = (events != 0).then_some(Event { events, data: entry.data });
        let modes = entry.events;
        if event.is_some() && matches!(purpose, Purpose::Deliver(_)) && modes & EPOLLONESHOT != 0 {
            entry.events &= MODES;
        }
        let is_enabled = entry.is_enabled();
        self.examined -= 1;
        let stays = match purpose {
            Purpose::Deliver(_) => event.is_some() && modes & (EPOLLONESHOT | EPOLLET) == 0,
            Purpose::Enter | Purpose::Look(_) => event.is_some(),
        };
        let is_queued = is_enabled && (stays || woken);
        if is_queued {
            if stays && matches!(purpose, Purpose::Look(_)) {
                self.prepend(number);
            } else {
                self.append(number);
            }
        }
        // If `is_news` is false, no waiter is woken here. At the end of the scan, one thread in `epoll_wait`
        // is woken if the ready list has entries.
        let is_news = purpose == Purpose::Enter || woken || self.has_overlooked;
        if is_queued && is_news {
            self.has_overlooked = false;
        }
        Some(Outcome { event, is_news: is_queued && is_news })
    }

    /// Appends an entry to the ready list.
    fn append(&mut self, number: Number) {
        let last = self.last;
        self.link(number, last, None);
    }

    /// Puts an entry that a look has found ready at the front of the ready list. There, a concurrent look
    /// that began earlier finds it, too.
    fn prepend(&mut self, number: Number) {
        if let Some(entry) = self.entries.get_mut(number) {
            entry.last_look = 0;
        }
        let first = self.first;
        self.link(number, None, first);
    }

    fn link(&mut self, number: Number, previous: Option<Number>, next: Option<Number>) {
        let Some(entry) = self.entries.get_mut(number) else { return };
        entry.phase = Phase::Ready;
        (entry.previous, entry.next) = (previous, next);
        self.set_next(previous, Some(number));
        self.set_previous(next, Some(number));
    }

    /// Removes an entry from the ready list.
    fn unlink(&mut self, number: Number) {
        let Some(entry) = self.entries.get(number) else { return };
        let (previous, next) = (entry.previous, entry.next);
        self.set_next(previous, next);
        self.set_previous(next, previous);
    }

    /// Sets the entry that follows the entry `number`. If `number` is `None`, sets the first entry of the
    /// list.
    fn set_next(&mut self, number: Option<Number>, next: Option<Number>) {
        match number.and_then(|number| self.entries.get_mut(number)) {
            Some(entry) => entry.next = next,
            None => self.first = next,
        }
    }

    /// Sets the entry that precedes the entry `number`. If `number` is `None`, sets the last entry of the
    /// list.
    fn set_previous(&mut self, number: Option<Number>, previous: Option<Number>) {
        match number.and_then(|number| self.entries.get_mut(number)) {
            Some(entry) => entry.previous = previous,
            None => self.last = previous,
        }
    }
}
