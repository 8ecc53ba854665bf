//! Waiting for whichever comes first.

use std::io;
use std::os::fd::AsRawFd;

use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};

/// Waits for several files at once. They must stay open as long as it is used.
#[derive(Debug)]
pub(super) struct Wait(Epoll);

impl Wait {
    /// Waits for these.
    pub(super) fn new(files: &[&dyn AsRawFd]) -> io::Result<Self> {
        let epoll = Epoll::new()?;
        for (number, file) in (0..).zip(files) {
            let event = EpollEvent::new(EventSet::IN, number);
            epoll.ctl(ControlOperation::Add, file.as_raw_fd(), event)?;
        }
        Ok(Self(epoll))
    }

    /// The number of one that can be read.
    pub(super) fn next(&self) -> io::Result<u64> {
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
    use super::Wait;
    use vmm_sys_util::eventfd::EventFd;

    #[test]
    fn the_one_that_is_ready_is_found() {
        let events = [EventFd::new(0).unwrap(), EventFd::new(0).unwrap()];
        let wait = Wait::new(&[&events[0], &events[1]]).unwrap();
        for number in [1, 0, 1] {
            events[number].write(1).unwrap();
            assert_eq!(wait.next().unwrap(), number as u64);
            events[number].read().unwrap();
        }
    }
}
