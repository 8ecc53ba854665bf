//! Event counters (`eventfd`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use hermit_abi::{
    EAGAIN, EBADF, EFD_CLOEXEC, EFD_NONBLOCK, EFD_SEMAPHORE, EINVAL, ENOTTY, F_GETFL, F_SETFL, FIONBIO,
    O_NONBLOCK,
};

use super::calls::{self, ErrnoResult};
use super::support::QUIET_TIME;

/// Maximum value of a counter.
const MAX: u64 = u64::MAX - 1;

/// An eventfd, which is closed when it is dropped.
#[derive(Debug)]
pub(crate) struct EventFd(pub(crate) i32);

impl EventFd {
    pub(crate) fn new(value: u64, flags: i16) -> Self {
        Self(calls::eventfd(value, flags).expect("no counter"))
    }

    pub(crate) fn read(&self) -> ErrnoResult<u64> {
        let mut bytes = [0; 8];
        assert_eq!(calls::read(self.0, &mut bytes)?, 8);
        Ok(u64::from_le_bytes(bytes))
    }

    pub(crate) fn write(&self, number: u64) -> ErrnoResult<usize> {
        calls::write(self.0, &number.to_le_bytes())
    }
}

impl Drop for EventFd {
    fn drop(&mut self) {
        assert_eq!(calls::close(self.0), Ok(0));
    }
}

pub(crate) fn eventfd() {
    values();
    sizes_and_flags();
    nonblocking_mode();
    blocked_reader_is_woken();
    one_write_is_for_all_blocked_readers();
    blocked_writer_is_woken();
    alternate();
}

fn values() {
    let counter = EventFd::new(3, EFD_NONBLOCK);
    assert_eq!(counter.write(4), Ok(8));
    assert_eq!([counter.read(), counter.read()], [Ok(7), Err(EAGAIN)]);
    assert_eq!(counter.write(0), Ok(8));
    assert_eq!(counter.read(), Err(EAGAIN), "adding nothing is something");
    assert_eq!(counter.write(u64::MAX), Err(EINVAL));
    assert_eq!(counter.write(MAX), Ok(8));
    assert_eq!(counter.write(1), Err(EAGAIN));
    assert_eq!(counter.read(), Ok(MAX));

    let semaphore = EventFd::new(2, EFD_SEMAPHORE | EFD_NONBLOCK | EFD_CLOEXEC);
    assert_eq!([(); 3].map(|()| semaphore.read()), [Ok(1), Ok(1), Err(EAGAIN)]);
}

fn sizes_and_flags() {
    assert_eq!(calls::eventfd(u64::MAX, 0), Err(EINVAL));
    assert_eq!(calls::eventfd(0, 2), Err(EINVAL));
    let counter = EventFd::new(1, 0);
    assert_eq!(calls::read(counter.0, &mut [0; 7]), Err(EINVAL));
    assert_eq!(calls::write(counter.0, &[1; 7]), Err(EINVAL));
    let mut long = [0xff; 16];
    assert_eq!(calls::read(counter.0, &mut long), Ok(8));
    assert_eq!(long[..8], 1_u64.to_le_bytes());

    let closed = EventFd::new(0, 0).0;
    assert_eq!(calls::read(closed, &mut long), Err(EBADF));
    assert_eq!(calls::write(closed, &long), Err(EBADF));
    assert_eq!(calls::fcntl(closed, F_GETFL, 0), Err(EBADF));
}

fn nonblocking_mode() {
    let counter = EventFd::new(0, 0);
    let flags = || calls::fcntl(counter.0, F_GETFL, 0).expect("no flags") & O_NONBLOCK;
    assert_eq!(flags(), 0);
    assert_eq!(calls::fcntl(counter.0, F_SETFL, O_NONBLOCK), Ok(0));
    assert_eq!((flags(), counter.read()), (O_NONBLOCK, Err(EAGAIN)));
    assert_eq!(calls::fcntl(counter.0, F_SETFL, 0), Ok(0));
    assert_eq!(flags(), 0);
    assert_eq!(calls::ioctl(counter.0, FIONBIO, 1), Ok(0));
    assert_eq!((flags(), counter.read()), (O_NONBLOCK, Err(EAGAIN)));
    // A duplicated descriptor refers to the same counter.
    let second = EventFd(calls::dup(counter.0).expect("no second descriptor"));
    assert_eq!((second.write(5), counter.read()), (Ok(8), Ok(5)));
    assert_eq!(calls::ioctl(counter.0, FIONBIO, 0), Ok(0));
    assert_eq!(flags(), 0);
    assert_eq!(calls::ioctl(counter.0, FIONBIO + 1, 0), Err(ENOTTY));
    assert_eq!(calls::fcntl(counter.0, 1000, 0), Err(EINVAL));
}

fn blocked_reader_is_woken() {
    let (counter, done) = (EventFd::new(0, 0), AtomicBool::new(false));
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let number = counter.read();
            done.store(true, Ordering::SeqCst);
            number
        });
        thread::sleep(QUIET_TIME);
        assert!(!done.load(Ordering::SeqCst), "there was nothing to read");
        assert_eq!(counter.write(42), Ok(8));
        assert_eq!(reader.join().expect("the reader panicked"), Ok(42));
    });
}

/// A write wakes one reader of a semaphore. Each reader wakes the next reader while the counter is above 0.
fn one_write_is_for_all_blocked_readers() {
    const READERS: u64 = 20;
    let counter = EventFd::new(0, EFD_SEMAPHORE);
    thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS).map(|_| scope.spawn(|| counter.read())).collect();
        thread::sleep(QUIET_TIME);
        assert_eq!(counter.write(READERS), Ok(8));
        assert!(readers.into_iter().all(|reader| reader.join().expect("the reader panicked") == Ok(1)));
    });
}

fn blocked_writer_is_woken() {
    let (counter, done) = (EventFd::new(MAX, 0), AtomicBool::new(false));
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let written = counter.write(9);
            done.store(true, Ordering::SeqCst);
            written
        });
        thread::sleep(QUIET_TIME);
        assert!(!done.load(Ordering::SeqCst), "the counter was full");
        assert_eq!(counter.read(), Ok(MAX));
        assert_eq!(writer.join().expect("the writer panicked"), Ok(8));
    });
    assert_eq!(counter.read(), Ok(9));
}

/// Two threads alternate.
fn alternate() {
    let (there, back) = (EventFd::new(0, 0), EventFd::new(0, EFD_SEMAPHORE));
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=1000 {
                assert_eq!(there.read(), Ok(round));
                assert_eq!(back.write(1), Ok(8));
            }
        });
        for round in 1..=1000 {
            assert_eq!(there.write(round), Ok(8));
            assert_eq!(back.read(), Ok(1));
        }
    });
}
