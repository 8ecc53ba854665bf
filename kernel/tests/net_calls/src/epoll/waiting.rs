//! Timeouts, and threads that wait.

use std::io;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::{ET, IN, LONG_TIMEOUT_MS, ONESHOT, add, count, instance, modify, ready_counter, remove, wait};
use crate::record::Transcript;
use crate::support::{IpVersion, at_once, join, read, settle, takes, write};
use crate::{CheckResult, sys};

/// Time limit of a wake-up: if it takes longer, it counts as lost.
const LOST: Duration = Duration::from_secs(20);

/// Number of wake-ups amid traffic.
const ROUNDS: usize = 50;

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

/// A thread in `poll` waits for a counter, and for an instance whose socket has traffic that others receive:
/// no addition to the counter is lost while the instance looks at the socket.
pub(super) fn woken_amid_traffic(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (epoll, counter) = (instance()?, sys::eventfd()?);
    let (sender, receiver) = ip.connected_datagrams()?;
    receiver.set_nonblocking(true)?;
    add(&epoll, &receiver, IN, 1)?;
    let (has_ended, (ack, acks)) = (AtomicBool::new(false), mpsc::channel());
    let all = thread::scope(|scope| {
        let (epoll, counter, has_ended) = (&epoll, &counter, &has_ended);
        let waiter = scope.spawn(move || acknowledge(counter, epoll, &ack));
        scope.spawn(move || exchange(&sender, &receiver, has_ended));
        let all = (0..ROUNDS).all(|_| count(counter).is_ok() && acks.recv_timeout(LOST).is_ok());
        has_ended.store(true, Relaxed);
        drop(acks);
        // A thread that has missed the counter is woken by it now.
        count(counter)?;
        join(waiter).map(|()| all)
    });
    record.add("all", all);
    Ok(())
}

/// Waits for the counter and acknowledges each addition, until the test ends.
fn acknowledge(counter: &OwnedFd, epoll: &OwnedFd, acknowledged: &mpsc::Sender<()>) -> io::Result<()> {
    let requests = [(sys::raw(counter), sys::POLLIN), (sys::raw(epoll), sys::POLLIN)];
    loop {
        // The instance becomes readable, too.
        while sys::poll(&requests, -1)?.1.first().is_none_or(|events| *events == 0) {}
        sys::read(counter, &mut [0; 8])?;
        if acknowledged.send(()).is_err() {
            return Ok(());
        }
    }
}

/// Sends and receives datagrams until the test has ended.
fn exchange(sender: &UdpSocket, receiver: &UdpSocket, has_ended: &AtomicBool) {
    while !has_ended.load(Relaxed) {
        let _: io::Result<usize> = sender.send(b"datagram");
        let _: io::Result<usize> = receiver.recv(&mut [0; 8]);
    }
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
