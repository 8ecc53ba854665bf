//! Intrusive doubly linked lists of threads: the links are fields of the threads.

use core::ptr;

use crate::thread::{Entity, Links, Thread};

/// Selects the links of a thread that a list uses. A thread can be in one list of each kind.
pub trait ListKind {
    /// The links of this kind.
    #[doc(hidden)]
    #[expect(private_interfaces, reason = "only this crate has lists")]
    fn links<T>(entity: &Entity<T>) -> &Links<T>;
}

/// Kind of the lists of ready threads.
#[derive(Debug)]
pub enum Ready {}

/// Kind of the lists of waiting threads.
#[derive(Debug)]
pub enum Waiting {}

#[expect(private_interfaces, reason = "only this crate has lists")]
impl ListKind for Ready {
    #[inline]
    fn links<T>(entity: &Entity<T>) -> &Links<T> {
        &entity.ready
    }
}

#[expect(private_interfaces, reason = "only this crate has lists")]
impl ListKind for Waiting {
    #[inline]
    fn links<T>(entity: &Entity<T>) -> &Links<T> {
        &entity.waiting
    }
}

/// A FIFO list of threads.
#[derive(Debug)]
pub struct List<T: 'static, K> {
    first: Option<&'static T>,
    /// The last thread. The value is arbitrary in an empty list.
    last: Option<&'static T>,
    kind: core::marker::PhantomData<fn() -> K>,
}

impl<T, K> List<T, K> {
    /// Creates an empty list.
    #[must_use]
    pub const fn new() -> Self {
        Self { first: None, last: None, kind: core::marker::PhantomData }
    }

    /// Returns true if the list is empty.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.first.is_none()
    }
}

impl<T, K> Default for List<T, K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Thread, K: ListKind> List<T, K> {
    /// Adds a thread at the end. It must not be in a list of this kind.
    #[inline]
    pub fn push(&mut self, thread: &'static T) {
        let links = K::links(thread.entity());
        links.next.store(None);
        if self.is_empty() {
            self.first = Some(thread);
        } else if let Some(last) = self.last {
            links.previous.store(Some(last));
            K::links(last.entity()).next.store(Some(thread));
        }
        self.last = Some(thread);
    }

    /// Adds a thread at the start. It must not be in a list of this kind.
    pub fn push_front(&mut self, thread: &'static T) {
        K::links(thread.entity()).next.store(self.first);
        match self.first {
            Some(first) => K::links(first.entity()).previous.store(Some(thread)),
            None => self.last = Some(thread),
        }
        self.first = Some(thread);
    }

    /// Removes and returns the first thread.
    #[inline]
    pub fn pop(&mut self) -> Option<&'static T> {
        let thread = self.first?;
        self.first = K::links(thread.entity()).next.load();
        Some(thread)
    }

    /// Adds a thread at the end, then takes and returns the first thread. On an empty list, returns `thread`
    /// and adds nothing.
    #[inline]
    pub fn rotate(&mut self, thread: &'static T) -> &'static T {
        let Some(first) = self.first else { return thread };
        let links = K::links(thread.entity());
        links.next.store(None);
        match self.last.filter(|last| !same(first, last)) {
            None => self.first = Some(thread),
            Some(last) => {
                links.previous.store(Some(last));
                K::links(last.entity()).next.store(Some(thread));
                self.first = K::links(first.entity()).next.load();
            }
        }
        self.last = Some(thread);
        first
    }

    /// Removes a thread that is in this list.
    pub fn remove(&mut self, thread: &'static T) {
        let links = K::links(thread.entity());
        let next = links.next.load();
        let is_first = is(self.first, thread);
        match links.previous.load().filter(|_| !is_first) {
            None => self.first = next,
            Some(previous) => {
                K::links(previous.entity()).next.store(next);
                match next {
                    Some(next) => K::links(next.entity()).previous.store(Some(previous)),
                    None => self.last = Some(previous),
                }
            }
        }
    }

    /// The first thread, without removing it.
    #[inline]
    #[must_use]
    pub const fn first(&self) -> Option<&'static T> {
        self.first
    }

    /// The threads from the first to the last.
    pub fn iter(&self) -> impl Iterator<Item = &'static T> + use<T, K> {
        core::iter::successors(self.first, |thread| K::links(thread.entity()).next.load())
    }
}

/// Returns true if both are the same thread.
#[inline]
pub(crate) fn same<T>(one: &'static T, other: &'static T) -> bool {
    ptr::eq(one, other)
}

/// True if `link` is a reference to this thread.
#[inline]
pub(crate) fn is<T>(link: Option<&'static T>, thread: &'static T) -> bool {
    link.is_some_and(|linked| same(linked, thread))
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    extern crate std;

    use super::{List, Waiting};
    use crate::testing::{TestThread, threads};
    use proptest::collection::vec;
    use proptest::{prop_assert, prop_assert_eq, proptest};
    use std::collections::VecDeque;
    use std::vec::Vec;

    proptest! {
        #[test]
        fn list_agrees_with_a_deque(steps in vec((0..5_u8, 0..8_usize), 0..60)) {
            let all = threads(8);
            let mut list = List::<TestThread, Waiting>::new();
            let mut model = VecDeque::new();
            for (step, index) in steps {
                match step {
                    0 if !model.contains(&index) => {
                        list.push(all[index]);
                        model.push_back(index);
                    }
                    4 if !model.contains(&index) => {
                        list.push_front(all[index]);
                        model.push_front(index);
                    }
                    3 if !model.contains(&index) => {
                        let first = list.rotate(all[index]).number;
                        let expected = model.pop_front();
                        if expected.is_some() {
                            model.push_back(index);
                        }
                        prop_assert_eq!(first, expected.unwrap_or(index));
                    }
                    1 => prop_assert_eq!(list.pop().map(|thread| thread.number), model.pop_front()),
                    2 if model.contains(&index) => {
                        list.remove(all[index]);
                        model.retain(|&other| other != index);
                    }
                    _ => {}
                }
                let numbers: Vec<_> = list.iter().map(|thread| thread.number).collect();
                prop_assert!(model.iter().eq(&numbers));
                prop_assert_eq!(list.is_empty(), model.is_empty());
            }
        }
    }
}
