//! `poll` for datagrams, eventfds, several descriptors, and none.
//!
//! Rows print the names of the returned events. Some of them change a socket from another thread while `poll`
//! waits, to check that the change wakes it. Rows for streams are in [`crate::polling`].

use std::io;
use std::os::fd::{AsFd, RawFd};
use std::thread;
use std::time::Duration;

use std::net::TcpStream;

use crate::record::Transcript;
use crate::support::{IpVersion, at_once, fill, join, read, receive, settle, takes, write};
use crate::{Check, CheckResult, NamedCheck, sys};

pub(crate) const ROWS: [NamedCheck; 14] = [
    ("datagrams", Check::PerVersion(datagrams)),
    ("datagrams_refused", Check::PerVersion(datagrams_refused)),
    ("datagrams_shut_down", Check::PerVersion(datagrams_shut_down)),
    ("several", Check::PerVersion(several)),
    ("none", Check::Once(none)),
    ("not_open", Check::Once(not_open)),
    ("time_passes", Check::PerVersion(time_passes)),
    ("woken_by_data", Check::PerVersion(woken_by_data)),
    ("woken_by_connection", Check::PerVersion(woken_by_connection)),
    ("woken_by_end", Check::PerVersion(woken_by_end)),
    ("woken_by_room", Check::PerVersion(woken_by_room)),
    ("woken_by_datagram", Check::PerVersion(woken_by_datagram)),
    ("woken_by_counter", Check::PerVersion(woken_by_counter)),
    ("counter", Check::Once(counter)),
];

/// A timeout that is never reached, in milliseconds.
const LONG_TIMEOUT_MS: i32 = 20_000;

/// All events that can be requested.
pub(crate) const ALL_EVENTS: i16 =
    sys::POLLIN | sys::POLLPRI | sys::POLLOUT | sys::POLLRDHUP | sys::POLLRDNORM | sys::POLLWRNORM;

/// The names of the events.
fn names(events: i16) -> String {
    let all = [
        (sys::POLLIN, "in"),
        (sys::POLLPRI, "pri"),
        (sys::POLLOUT, "out"),
        (sys::POLLERR, "err"),
        (sys::POLLHUP, "hup"),
        (sys::POLLNVAL, "nval"),
        (sys::POLLRDNORM, "rdnorm"),
        (sys::POLLWRNORM, "wrnorm"),
        (sys::POLLRDHUP, "rdhup"),
    ];
    let present: Vec<&str> = all.iter().filter(|(bit, _)| events & bit != 0).map(|(_, name)| *name).collect();
    if present.is_empty() { "nothing".to_owned() } else { present.join("+") }
}

/// The current events of a descriptor.
pub(crate) fn show(fd: &impl AsFd, events: i16) -> io::Result<String> {
    let (_, found) = sys::poll(&[(sys::raw(fd), events)], 0)?;
    Ok(found.into_iter().map(names).collect())
}

/// Polls with a timeout; returns the number of ready descriptors and the events of each.
fn wait(requests: &[(RawFd, i16)], milliseconds: i32) -> io::Result<String> {
    let (ready, events) = sys::poll(requests, milliseconds)?;
    let events: Vec<String> = events.into_iter().map(names).collect();
    Ok(format!("{ready}: {}", events.join(" ")))
}

fn datagrams(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    record.add("fresh", show(&ip.datagram_socket()?, ALL_EVENTS));
    let (one, other) = ip.connected_datagrams()?;
    record.add("idle", show(&other, ALL_EVENTS));
    one.send(b"")?;
    settle();
    record.add("an empty one", show(&other, ALL_EVENTS));
    receive(&other)?;
    record.add("received", show(&other, ALL_EVENTS));
    Ok(())
}

fn datagrams_refused(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (socket, _) = ip.datagrams()?;
    socket.connect(ip.silent_datagram_address()?)?;
    socket.send(b"datagram")?;
    settle();
    record.add("refused", show(&socket, ALL_EVENTS));
    record.add("nothing asked", show(&socket, 0));
    record.add("error", socket.take_error());
    record.add("taken", show(&socket, ALL_EVENTS));
    Ok(())
}

fn datagrams_shut_down(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (one, other) = ip.connected_datagrams()?;
    sys::shutdown(&one, sys::SHUT_RD)?;
    record.add("reading", show(&one, ALL_EVENTS));
    sys::shutdown(&other, sys::SHUT_WR)?;
    record.add("writing", show(&other, ALL_EVENTS));
    sys::shutdown(&one, sys::SHUT_RDWR)?;
    record.add("both", show(&one, ALL_EVENTS));
    Ok(())
}

fn several(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    let (one, other) = ip.connected_datagrams()?;
    let (listener, _) = ip.listener()?;
    let requests = [
        (sys::raw(&server), sys::POLLIN),
        (sys::raw(&client), sys::POLLIN | sys::POLLOUT),
        (sys::raw(&other), sys::POLLIN),
        (sys::raw(&listener), sys::POLLIN),
    ];
    record.add("one", wait(&requests, LONG_TIMEOUT_MS));
    write(&client, b"data")?;
    one.send(b"data")?;
    settle();
    record.add("three", wait(&requests, LONG_TIMEOUT_MS));
    // The same descriptor may occur twice.
    let twice = [requests, requests].concat();
    record.add("six", wait(&twice, LONG_TIMEOUT_MS));
    Ok(())
}

fn none(record: &mut Transcript) -> CheckResult {
    let limit = Duration::from_millis(60);
    let (result, time) = takes(limit, || wait(&[], 60));
    record.add("nothing", result);
    record.add("it ends", time);
    let (result, time) = takes(limit, || wait(&[(-1, ALL_EVENTS)], 60));
    record.add("a negative number", result);
    record.add("it ends", time);
    Ok(())
}

fn not_open(record: &mut Transcript) -> CheckResult {
    let (client, _server) = IpVersion::V4.pair()?;
    let closed_descriptor = sys::raw(&sys::closed_descriptor());
    record.add("alone", wait(&[(closed_descriptor, sys::POLLIN)], LONG_TIMEOUT_MS));
    record.add("nothing asked", wait(&[(closed_descriptor, 0)], LONG_TIMEOUT_MS));
    record.add(
        "among others",
        wait(&[(closed_descriptor, sys::POLLIN), (sys::raw(&client), sys::POLLIN)], LONG_TIMEOUT_MS),
    );
    let number = sys::raw(&client);
    drop(client);
    record.add("closed", wait(&[(number, sys::POLLIN)], 0));
    Ok(())
}

fn time_passes(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, _server) = ip.pair()?;
    let (result, time) = takes(Duration::from_millis(80), || wait(&[(sys::raw(&client), sys::POLLIN)], 80));
    record.add("wait", result);
    record.add("it ends", time);
    let (result, time) = at_once(|| wait(&[(sys::raw(&client), sys::POLLIN)], 0));
    record.add("no wait", result);
    record.add("it ends", time);
    Ok(())
}

/// Polls, while another thread acts a little later.
fn woken(
    record: &mut Transcript,
    fd: RawFd,
    events: i16,
    action: impl FnOnce() -> io::Result<()> + Send,
) -> CheckResult {
    let (result, time) = at_once(|| {
        thread::scope(|scope| {
            let waiter = scope.spawn(move || wait(&[(fd, events)], LONG_TIMEOUT_MS));
            settle();
            action()?;
            join(waiter)
        })
    });
    record.add("woken", result);
    record.add("it ends", time);
    Ok(())
}

fn woken_by_data(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    woken(record, sys::raw(&server), sys::POLLIN, || write(&client, b"data").map(drop))
}

fn woken_by_connection(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (listener, address) = ip.listener()?;
    let mut client = None;
    woken(record, sys::raw(&listener), sys::POLLIN, || {
        client = Some(TcpStream::connect(address)?);
        Ok(())
    })
}

fn woken_by_end(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    woken(record, sys::raw(&server), sys::POLLIN, move || {
        drop(client);
        Ok(())
    })
}

fn woken_by_room(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    let sent = fill(&client)?;
    woken(record, sys::raw(&client), sys::POLLOUT, || {
        let mut received = 0;
        while received < sent {
            received += read(&server)?.len();
        }
        Ok(())
    })
}

fn woken_by_datagram(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (one, other) = ip.connected_datagrams()?;
    woken(record, sys::raw(&other), sys::POLLIN, || one.send(b"data").map(drop))
}

/// An eventfd wakes a `poll` for it and for sockets: event loops use it for their wakers.
fn woken_by_counter(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, _server) = ip.pair()?;
    let counter = sys::eventfd()?;
    let requests = [(sys::raw(&client), sys::POLLIN), (sys::raw(&counter), sys::POLLIN)];
    let result = thread::scope(|scope| {
        let waiter = scope.spawn(move || wait(&requests, LONG_TIMEOUT_MS));
        settle();
        sys::write(&counter, &1_u64.to_ne_bytes())?;
        join(waiter)
    });
    record.add("woken", result);
    let mut number = [0; 8];
    record.add("read", sys::read(&counter, &mut number));
    record.add("number", u64::from_ne_bytes(number));
    record.add("then", wait(&requests, 0));
    Ok(())
}

fn counter(record: &mut Transcript) -> CheckResult {
    let counter = sys::eventfd()?;
    record.add("at first", show(&counter, sys::POLLIN | sys::POLLOUT));
    sys::write(&counter, &3_u64.to_ne_bytes())?;
    record.add("counted", show(&counter, sys::POLLIN | sys::POLLOUT));
    sys::write(&counter, &(u64::MAX - 4).to_ne_bytes())?;
    record.add("full", show(&counter, sys::POLLIN | sys::POLLOUT));
    Ok(())
}
