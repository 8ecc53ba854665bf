//! Tables for state that peers can make this host keep.
//!
//! All calls run under one lock, so the time of a call must not grow with the size of a table. A table that
//! doubles would move all of its entries in the call that finds it full. [`slab::Slab`] has values in
//! numbered slots, [`map::Map`] finds values by key, and [`aging::Aging`] also has its entries in order of
//! age.

pub(crate) mod aging;
pub(crate) mod map;
pub(crate) mod slab;
