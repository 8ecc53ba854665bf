//! The numbers that calls take and give, by topic; the error numbers have a module of their own.

pub(crate) mod file;
pub(crate) mod net;
pub(crate) mod poll;
pub(crate) mod system;
