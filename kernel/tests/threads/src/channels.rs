//! Messages arrive once and in order, on unbounded and bounded channels.

use std::sync::mpsc::{self, RecvTimeoutError, Sender, TryRecvError, TrySendError};
use std::thread;
use std::time::{Duration, Instant};

use crate::arguments::Settings;
use crate::support::{TIMEOUT, cpus};

/// Number of messages of each sender.
const MESSAGES: usize = 2_000;

/// Several senders and one receiver; time limits of `recv_timeout`; either side detects that the other is
/// closed.
pub(crate) fn mpsc(_: &Settings) {
    let senders = cpus() + 3;
    let (to, from) = mpsc::channel();
    let send = |to: Sender<(usize, usize)>, sender: usize| {
        for number in 0..MESSAGES {
            to.send((sender, number)).expect("the receiver is gone");
        }
    };
    let mut next = vec![0; senders];
    thread::scope(|scope| {
        for sender in 0..senders {
            let to = to.clone();
            scope.spawn(move || send(to, sender));
        }
        drop(to);
        for (sender, number) in &from {
            assert_eq!(number, next[sender], "a message of sender {sender} is out of order");
            next[sender] += 1;
        }
    });
    assert!(next.iter().all(|&count| count == MESSAGES), "messages were lost: {next:?}");
    assert_eq!(from.try_recv(), Err(TryRecvError::Disconnected));
    receive_timeouts();
}

fn receive_timeouts() {
    let (to, from) = mpsc::channel();
    assert_eq!(from.try_recv(), Err(TryRecvError::Empty));
    let (start, limit) = (Instant::now(), Duration::from_millis(20));
    assert_eq!(from.recv_timeout(limit), Err(RecvTimeoutError::Timeout));
    assert!(start.elapsed() >= limit, "a wait of {limit:?} took only {:?}", start.elapsed());

    let start = Instant::now();
    let sender = thread::spawn(move || {
        thread::sleep(Duration::from_millis(10));
        to.send(1)
    });
    assert_eq!(from.recv_timeout(10 * TIMEOUT), Ok(1));
    assert!(start.elapsed() < TIMEOUT, "a message took {:?}", start.elapsed());
    assert_eq!(sender.join().expect("the sender panicked"), Ok(()));
    assert_eq!(from.recv(), Err(mpsc::RecvError));
}

/// A bounded channel holds that many messages; one with bound 0 passes each message directly.
pub(crate) fn sync_channel(_: &Settings) {
    let (to, from) = mpsc::sync_channel(3);
    (0..3).for_each(|number| to.try_send(number).expect("there is room"));
    assert_eq!(to.try_send(3), Err(TrySendError::Full(3)));
    assert_eq!(from.recv(), Ok(0));
    assert_eq!(to.try_send(3), Ok(()));
    drop(from);
    assert_eq!(to.try_send(4), Err(TrySendError::Disconnected(4)));
    for bound in [0, 1, 7] {
        let (to, from) = mpsc::sync_channel(bound);
        let sender = thread::spawn(move || (0..MESSAGES).try_for_each(|number| to.send(number)));
        assert!(from.iter().eq(0..MESSAGES), "messages are missing or out of order");
        assert_eq!(sender.join().expect("the sender panicked"), Ok(()));
    }
}
