//! Tables for state that peers can make this host keep.
//!
//! All calls run under one lock, so no call may take time in proportion to a table: a table that doubled
//! would move all of its entries in the call that finds it full. [`slab::Slab`] has values in numbered slots,
//! [`map::Map`] finds values by key, and [`aging::Aging`] also knows which of its entries is the oldest.

pub(crate) mod aging;
pub(crate) mod map;
pub(crate) mod slab;
