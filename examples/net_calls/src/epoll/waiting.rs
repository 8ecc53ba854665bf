//! Timeouts, and threads that wait.

use std::io;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

use super::{ET, IN, LONG_TIMEOUT_MS, ONESHOT, add, count, instance, modify, ready_counter, remove, wait};
use crate::record::Transcript;
use crate::support::{IpVersion, at_once, join, read, settle, takes, write};
use crate::{CheckResult, sys};

pub(super) fn time_passes(record: &mut Transcript) -> CheckResult {
    const TIME: Duration = Duration::from_millis(50);
    let (epoll, counter) = (instance()?, sys::eventfd()?);
    add(&epoll, &counter, IN, 1)?;
    record.add("timeout", takes(TIME, || wait(&epoll, 8, 50)));
    record.add("none", at_once(|| wait(&epoll, 8, 0)));
    let precise = |time| sys::epoll_wait_precise(&epoll, 8, time).map(|found| found.len());
    record.add("precise", takes(TIME, || precise(Some(TIME))));
    record.add("zero", at_once(|| precise(Some(Duration::ZERO))));
    count(&counter)?;
    record.add("ready", at_once(|| wait(&epoll, 8, LONG_TIMEOUT_MS)));
    record.add("forever", at_once(|| precise(None)));
    Ok(())
}

pub(super) fn woken(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let epoll = instance()?;
    let (client, server) = ip.pair()?;
    for modes in [0, ET, ONESHOT] {
        add(&epoll, &server, IN | modes, 1)?;
        let found = thread::scope(|scope| {
            let waiter = scope.spawn(|| wait(&epoll, 8, LONG_TIMEOUT_MS));
            settle();
            write(&client, b"data")?;
            join(waiter)
        });
        record.add("woken", found);
        read(&server)?;
        remove(&epoll, &server)?;
    }
    Ok(())
}

pub(super) fn woken_by_change_of_set(record: &mut Transcript) -> CheckResult {
    let (epoll, counter) = (instance()?, ready_counter()?);
    let changes: [fn(&OwnedFd, &OwnedFd) -> io::Result<()>; 2] =
        [|epoll, counter| add(epoll, counter, IN, 1), |epoll, counter| modify(epoll, counter, IN, 2)];
    for change in changes {
        let found = thread::scope(|scope| {
            let waiter = scope.spawn(|| wait(&epoll, 8, LONG_TIMEOUT_MS));
            settle();
            change(&epoll, &counter)?;
            join(waiter)
        });
        record.add("woken", found);
        modify(&epoll, &counter, 0, 0)?;
    }
    Ok(())
}

pub(super) fn one_of_two_threads(record: &mut Transcript) -> CheckResult {
    let (epoll, counter) = (instance()?, sys::eventfd()?);
    add(&epoll, &counter, IN | ET, 1)?;
    let mut found = thread::scope(|scope| {
        let waiters = [(); 2].map(|()| scope.spawn(|| wait(&epoll, 8, 500)));
        settle();
        count(&counter)?;
        waiters.into_iter().map(join).collect::<io::Result<Vec<String>>>()
    })?;
    found.sort();
    record.add("threads", found.join(" and "));
    Ok(())
}
