//! References to threads: the links of lists, tables and timer heaps.

use crossbeam_utils::atomic::AtomicCell;

use hermit_base::const_fn;
use hermit_base::sync::SwitchPoint;

/// A reference to a thread, or none, that can be replaced atomically.
pub type Link<T> = AtomicCell<Option<&'static T>>;

/// A link of a timer. The owner of a timer may insert it again as soon as it is no longer queued. To test
/// this, the models may switch threads before each access.
#[derive(Debug)]
pub(crate) struct TimerLink<T: 'static> {
    target: Link<T>,
    access: SwitchPoint,
}

impl<T> TimerLink<T> {
    const_fn! {
        pub(crate) const fn new(target: Option<&'static T>) -> Self {
            Self { target: Link::new(target), access: SwitchPoint::new() }
        }
    }

    #[inline]
    pub(crate) fn load(&self) -> Option<&'static T> {
        self.access.pass();
        self.target.load()
    }

    #[inline]
    pub(crate) fn store(&self, target: Option<&'static T>) {
        self.access.pass();
        self.target.store(target);
    }
}
