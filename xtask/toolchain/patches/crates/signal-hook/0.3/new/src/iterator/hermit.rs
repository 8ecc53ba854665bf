//! An iterator over incoming signals.
//!
//! Actions run in a thread, so they may lock.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::io::Error;
use std::marker::PhantomData;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use libc::c_int;

use crate::low_level;
use crate::SigId;

#[derive(Debug, Default)]
struct State {
    pending: BTreeSet<c_int>,
    registered: Vec<(c_int, SigId)>,
    is_closed: bool,
}

#[derive(Debug, Default)]
struct Delivery {
    state: Mutex<State>,
    changed: Condvar,
}

impl Delivery {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

/// A handle to control the iterator.
#[derive(Clone, Debug)]
pub struct Handle(Arc<Registered>);

/// Unregisters the signals when the iterator and all handles are gone.
#[derive(Debug)]
struct Registered(Arc<Delivery>);

impl Drop for Registered {
    fn drop(&mut self) {
        let registered = std::mem::take(&mut self.0.state().registered);
        for (_, id) in registered {
            low_level::unregister(id);
        }
    }
}

impl Handle {
    /// Registers another signal.
    pub fn add_signal(&self, signal: c_int) -> Result<(), Error> {
        let delivery = Arc::clone(&(self.0).0);
        if delivery.state().registered.iter().any(|(other, _)| *other == signal) {
            return Ok(());
        }
        let action = move || {
            delivery.state().pending.insert(signal);
            delivery.changed.notify_all();
        };
        let id = unsafe { low_level::register(signal, action)? };
        (self.0).0.state().registered.push((signal, id));
        Ok(())
    }

    /// Ends all iterators.
    pub fn close(&self) {
        (self.0).0.state().is_closed = true;
        (self.0).0.changed.notify_all();
    }

    /// Returns true if it is closed.
    pub fn is_closed(&self) -> bool {
        (self.0).0.state().is_closed
    }
}

/// Signals that have arrived.
pub type Pending = std::collections::btree_set::IntoIter<c_int>;

/// Registered signals.
#[derive(Debug)]
pub struct Signals(Handle);

impl Signals {
    /// Registers signals.
    pub fn new<I, S>(signals: I) -> Result<Self, Error>
    where
        I: IntoIterator<Item = S>,
        S: Borrow<c_int>,
    {
        let handle = Handle(Arc::new(Registered(Arc::default())));
        for signal in signals {
            handle.add_signal(*signal.borrow())?;
        }
        Ok(Signals(handle))
    }

    /// Registers another signal.
    pub fn add_signal(&self, signal: c_int) -> Result<(), Error> {
        self.0.add_signal(signal)
    }

    /// Signals that have arrived since the last call.
    pub fn pending(&mut self) -> Pending {
        let mut state = ((self.0).0).0.state();
        std::mem::take(&mut state.pending).into_iter()
    }

    /// Waits for a signal, or until the handle is closed.
    pub fn wait(&mut self) -> Pending {
        let delivery = &((self.0).0).0;
        let waits = |state: &mut State| state.pending.is_empty() && !state.is_closed;
        let mut state = delivery.changed.wait_while(delivery.state(), waits).unwrap();
        std::mem::take(&mut state.pending).into_iter()
    }

    /// Returns true if the handle is closed.
    pub fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    /// An iterator that waits for signals until the handle is closed.
    pub fn forever(&mut self) -> Forever<'_> {
        Forever { signals: Signals(self.0.clone()), pending: self.pending(), borrow: PhantomData }
    }

    /// A handle that outlives the iterator.
    pub fn handle(&self) -> Handle {
        self.0.clone()
    }
}

impl<'a> IntoIterator for &'a mut Signals {
    type Item = c_int;
    type IntoIter = Forever<'a>;

    fn into_iter(self) -> Forever<'a> {
        self.forever()
    }
}

/// An iterator that waits for signals.
#[derive(Debug)]
pub struct Forever<'a> {
    signals: Signals,
    pending: Pending,
    borrow: PhantomData<&'a mut Signals>,
}

impl Iterator for Forever<'_> {
    type Item = c_int;

    fn next(&mut self) -> Option<c_int> {
        loop {
            if self.signals.is_closed() {
                return None;
            }
            if let Some(signal) = self.pending.next() {
                return Some(signal);
            }
            self.pending = self.signals.wait();
        }
    }
}
