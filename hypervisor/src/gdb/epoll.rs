//! Waiting for several file descriptors.

use std::io;
use std::os::fd::AsRawFd;

use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};

/// Set of files to wait for. The files must stay open as long as the set is used.
#[derive(Debug)]
pub(super) struct PollSet(Epoll);

impl PollSet {
    /// Creates a set of these files.
    pub(super) fn new(files: &[&dyn AsRawFd]) -> io::Result<Self> {
        let epoll = Epoll::new()?;
        for (index, file) in (0..).zip(files) {
            let event = EpollEvent::new(EventSet::IN, index);
            epoll.ctl(ControlOperation::Add, file.as_raw_fd(), event)?;
        }
        Ok(Self(epoll))
    }

    /// Waits until a file is readable, and returns its index.
    pub(super) fn wait(&self) -> io::Result<u64> {
        loop {
            let mut events = [EpollEvent::default()];
            match self.0.wait(-1, &mut events) {
                Ok(0) => {}
                Ok(_) => return Ok(events[0].data()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::PollSet;
    use vmm_sys_util::eventfd::EventFd;

    #[test]
    fn wait_returns_index_of_readable_file() {
        let events = [EventFd::new(0).unwrap(), EventFd::new(0).unwrap()];
        let set = PollSet::new(&[&events[0], &events[1]]).unwrap();
        for index in [1, 0, 1] {
            events[index].write(1).unwrap();
            assert_eq!(set.wait().unwrap(), index as u64);
            events[index].read().unwrap();
        }
    }
}
