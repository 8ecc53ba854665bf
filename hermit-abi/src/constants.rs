//! Constants of the calls, by topic; error numbers are in [`crate::errno`](mod@crate::errno).

pub(crate) mod epoll;
pub(crate) mod file;
pub(crate) mod net;
pub(crate) mod poll;
pub(crate) mod system;
