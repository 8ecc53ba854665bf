//! `epoll` for all kinds of descriptors: triggers, keys, errors, nested instances, and waiting threads.
//!
//! The rows in this file concern triggers. A level-triggered entry is reported as long as its object is
//! ready, and an edge-triggered entry once for each change. Only Linux, and not POSIX, defines what counts as
//! a change, so each kind of object is tried. The submodules have the other topics.

mod keys;
mod nesting;
mod waiting;

use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};

use crate::record::Transcript;
use crate::support::{IpVersion, drain, fill, read, receive, settle, write};
use crate::sys::{self, EPOLLET as ET, EPOLLEXCLUSIVE as EXCLUSIVE, EPOLLONESHOT as ONESHOT};
use crate::sys::{EPOLLIN as IN, EPOLLOUT as OUT, EPOLLPRI as PRI, EPOLLRDHUP as RDHUP};
use crate::{Check, CheckResult, NamedCheck};

pub(crate) const ROWS: [NamedCheck; 35] = [
    ("create", Check::Once(create)),
    ("not_open", Check::Once(keys::not_open)),
    ("not_watchable", Check::Once(keys::not_watchable)),
    ("not_an_instance", Check::Once(keys::not_an_instance)),
    ("itself", Check::Once(keys::itself)),
    ("arguments", Check::Once(keys::arguments)),
    ("key", Check::Once(keys::key)),
    ("closed", Check::PerVersion(keys::closed)),
    ("duplicate_keeps", Check::Once(keys::duplicate_keeps)),
    ("number_again", Check::Once(keys::number_again)),
    ("level", Check::PerVersion(level)),
    ("edge", Check::PerVersion(edge)),
    ("edge_room", Check::PerVersion(edge_room)),
    ("edge_counter", Check::Once(edge_counter)),
    ("edge_added_ready", Check::PerVersion(edge_added_ready)),
    ("one_shot", Check::PerVersion(one_shot)),
    ("modified", Check::PerVersion(modified)),
    ("exclusive", Check::Once(exclusive)),
    ("stream_ends", Check::PerVersion(stream_ends)),
    ("reset", Check::PerVersion(reset)),
    ("connecting", Check::PerVersion(connecting)),
    ("listener", Check::PerVersion(listener)),
    ("datagrams", Check::PerVersion(datagrams)),
    ("pipe", Check::Once(pipe)),
    ("turns", Check::Once(turns)),
    ("nested", Check::Once(nesting::nested)),
    ("nested_edge", Check::Once(nesting::nested_edge)),
    ("nested_edge_level", Check::Once(nesting::nested_edge_level)),
    ("nested_too_deep", Check::Once(nesting::nested_too_deep)),
    ("time_passes", Check::Once(waiting::time_passes)),
    ("woken", Check::PerVersion(waiting::woken)),
    ("woken_by_change_of_set", Check::Once(waiting::woken_by_change_of_set)),
    ("woken_amid_traffic", Check::PerVersion(waiting::woken_amid_traffic)),
    ("one_of_two_threads", Check::Once(waiting::one_of_two_threads)),
    ("instance_as_descriptor", Check::Once(nesting::instance_as_descriptor)),
];

/// A timeout that is never reached, in milliseconds.
const LONG_TIMEOUT_MS: i32 = 20_000;

/// All events that can be requested.
const ALL: u32 = IN | OUT | PRI | RDHUP;

fn instance() -> io::Result<OwnedFd> {
    sys::epoll_create(sys::EPOLL_CLOEXEC)
}

/// The names of events, and the data.
fn show((events, data): (u32, u64)) -> String {
    let all = [
        (IN, "in"),
        (PRI, "pri"),
        (OUT, "out"),
        (sys::EPOLLERR, "err"),
        (sys::EPOLLHUP, "hup"),
        (RDHUP, "rdhup"),
    ];
    let present: Vec<&str> = all.iter().filter(|(bit, _)| events & bit != 0).map(|(_, name)| *name).collect();
    format!("{data}:{}", present.join("+"))
}

/// Returns at most `max` of the current events.
fn now(epoll: &OwnedFd, max: i32) -> io::Result<String> {
    wait(epoll, max, 0)
}

fn wait(epoll: &OwnedFd, max: i32, timeout: i32) -> io::Result<String> {
    let found = sys::epoll_wait(epoll, max, timeout)?;
    let shown: Vec<String> = found.into_iter().map(show).collect();
    Ok(if shown.is_empty() { "nothing".to_owned() } else { shown.join(" ") })
}

fn add(epoll: &OwnedFd, fd: impl AsFd, events: u32, data: u64) -> io::Result<()> {
    sys::epoll_control(epoll, sys::EPOLL_CTL_ADD, sys::raw(&fd), Some((events, data)))
}

fn modify(epoll: &OwnedFd, fd: impl AsFd, events: u32, data: u64) -> io::Result<()> {
    sys::epoll_control(epoll, sys::EPOLL_CTL_MOD, sys::raw(&fd), Some((events, data)))
}

fn remove(epoll: &OwnedFd, fd: impl AsFd) -> io::Result<()> {
    sys::epoll_control(epoll, sys::EPOLL_CTL_DEL, sys::raw(&fd), None)
}

/// Adds 1 to an event counter.
fn count(counter: &OwnedFd) -> io::Result<()> {
    sys::write(counter, &1_u64.to_ne_bytes()).map(drop)
}

/// An event counter of 1.
fn ready_counter() -> io::Result<OwnedFd> {
    let counter = sys::eventfd()?;
    count(&counter)?;
    Ok(counter)
}

fn create(record: &mut Transcript) -> CheckResult {
    record.add("no flags", sys::epoll_create(0).map(drop));
    record.add("close on exec", instance().map(drop));
    record.add("other flags", sys::epoll_create(1).map(drop));
    record.add("empty", now(&instance()?, 8));
    Ok(())
}

fn level(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let epoll = instance()?;
    let (client, server) = ip.pair()?;
    add(&epoll, &server, IN | RDHUP, 1)?;
    record.add("idle", now(&epoll, 8));
    write(&client, b"data")?;
    settle();
    record.add("data", now(&epoll, 8));
    record.add("still", now(&epoll, 8));
    read(&server)?;
    record.add("read", now(&epoll, 8));
    modify(&epoll, &server, ALL, 2)?;
    record.add("writable", now(&epoll, 8));
    write(&client, b"data")?;
    settle();
    record.add("both", now(&epoll, 8));
    remove(&epoll, &server)?;
    record.add("removed", now(&epoll, 8));
    Ok(())
}

fn edge(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let epoll = instance()?;
    let (client, server) = ip.pair()?;
    add(&epoll, &server, ALL | ET, 1)?;
    record.add("fresh", now(&epoll, 8));
    record.add("again", now(&epoll, 8));
    for what in ["data", "more"] {
        write(&client, b"data")?;
        settle();
        record.add(what, now(&epoll, 8));
        record.add("again", now(&epoll, 8));
    }
    sys::receive(&server, &mut [0; 3], 0)?;
    record.add("part read", now(&epoll, 8));
    read(&server)?;
    record.add("read", now(&epoll, 8));
    write(&client, b"data")?;
    settle();
    record.add("data", now(&epoll, 8));
    write(&server, b"data")?;
    settle();
    record.add("written", now(&epoll, 8));
    sys::shutdown(&client, sys::SHUT_WR)?;
    settle();
    record.add("end", now(&epoll, 8));
    record.add("again", now(&epoll, 8));
    Ok(())
}

fn edge_room(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let epoll = instance()?;
    let (client, server) = ip.small_pair()?;
    add(&epoll, &client, OUT | ET, 1)?;
    record.add("fresh", now(&epoll, 8));
    let size = fill(&client)?;
    record.add("full", now(&epoll, 8));
    server.set_nonblocking(true)?;
    drain(&server, size)?;
    settle();
    record.add("room", now(&epoll, 8));
    record.add("again", now(&epoll, 8));
    Ok(())
}

fn edge_counter(record: &mut Transcript) -> CheckResult {
    let (epoll, counter) = (instance()?, sys::eventfd()?);
    add(&epoll, &counter, IN | ET, 1)?;
    record.add("zero", now(&epoll, 8));
    // Nothing reads the counter, but each addition is an event.
    for _ in 0..2 {
        count(&counter)?;
        record.add("counted", now(&epoll, 8));
        record.add("again", now(&epoll, 8));
    }
    count(&counter)?;
    count(&counter)?;
    record.add("twice", now(&epoll, 8));
    record.add("again", now(&epoll, 8));
    sys::read(&counter, &mut [0; 8])?;
    record.add("read", now(&epoll, 8));
    Ok(())
}

fn edge_added_ready(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let epoll = instance()?;
    let (client, server) = ip.pair()?;
    write(&client, b"data")?;
    settle();
    add(&epoll, &server, IN | ET, 1)?;
    record.add("added", now(&epoll, 8));
    record.add("again", now(&epoll, 8));
    modify(&epoll, &server, IN | ET, 2)?;
    record.add("modified", now(&epoll, 8));
    record.add("again", now(&epoll, 8));
    Ok(())
}

fn one_shot(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let epoll = instance()?;
    let (client, server) = ip.pair()?;
    add(&epoll, &server, IN | ONESHOT, 1)?;
    record.add("idle", now(&epoll, 8));
    write(&client, b"data")?;
    settle();
    record.add("data", now(&epoll, 8));
    record.add("again", now(&epoll, 8));
    write(&client, b"data")?;
    settle();
    record.add("more", now(&epoll, 8));
    drop(client);
    settle();
    record.add("end", now(&epoll, 8));
    modify(&epoll, &server, IN | RDHUP | ONESHOT | ET, 2)?;
    record.add("modified", now(&epoll, 8));
    record.add("again", now(&epoll, 8));
    Ok(())
}

fn modified(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let epoll = instance()?;
    let (client, server) = ip.pair()?;
    write(&client, b"data")?;
    settle();
    add(&epoll, &server, 0, 1)?;
    record.add("no events", now(&epoll, 8));
    modify(&epoll, &server, IN, 2)?;
    record.add("in", now(&epoll, 8));
    modify(&epoll, &server, OUT, 3)?;
    record.add("out", now(&epoll, 8));
    modify(&epoll, &server, PRI, 4)?;
    record.add("pri", now(&epoll, 8));
    Ok(())
}

fn exclusive(record: &mut Transcript) -> CheckResult {
    let (epoll, counter, other) = (instance()?, sys::eventfd()?, sys::eventfd()?);
    record.add("one-shot", add(&epoll, &counter, IN | EXCLUSIVE | ONESHOT, 1));
    record.add("rdhup", add(&epoll, &counter, IN | EXCLUSIVE | RDHUP, 1));
    record.add("instance", add(&epoll, instance()?, IN | EXCLUSIVE, 1));
    record.add("add", add(&epoll, &counter, IN | EXCLUSIVE | ET, 1));
    record.add("modify", modify(&epoll, &counter, IN, 1));
    add(&epoll, &other, IN, 2)?;
    record.add("modify another", modify(&epoll, &other, IN | EXCLUSIVE, 2));
    count(&counter)?;
    record.add("counted", now(&epoll, 8));
    record.add("remove", remove(&epoll, &counter));
    Ok(())
}

fn stream_ends(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let epoll = instance()?;
    let (client, server) = ip.pair()?;
    add(&epoll, &server, ALL, 1)?;
    sys::shutdown(&client, sys::SHUT_WR)?;
    settle();
    record.add("peer shut down", now(&epoll, 8));
    sys::shutdown(&server, sys::SHUT_WR)?;
    settle();
    record.add("both shut down", now(&epoll, 8));
    modify(&epoll, &server, 0, 1)?;
    record.add("nothing asked", now(&epoll, 8));
    Ok(())
}

fn reset(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let epoll = instance()?;
    let (client, server) = ip.pair()?;
    add(&epoll, &server, ALL | ET, 1)?;
    record.add("fresh", now(&epoll, 8));
    sys::set_linger(&client, Some(0))?;
    drop(client);
    settle();
    record.add("reset", now(&epoll, 8));
    record.add("again", now(&epoll, 8));
    Ok(())
}

fn connecting(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let epoll = instance()?;
    let (_listener, address) = ip.listener()?;
    for (data, address) in [(1, address), (2, ip.silent_address()?)] {
        let socket = ip.stream_socket()?;
        sys::set_nonblocking(&socket, true)?;
        add(&epoll, &socket, OUT | ET, data)?;
        record.add("fresh", now(&epoll, 8));
        record.add("connect", sys::connect(&socket, Some(address)));
        record.add("outcome", wait(&epoll, 8, LONG_TIMEOUT_MS));
        record.add("again", now(&epoll, 8));
        record.add("error", sys::option(&socket, sys::ERROR));
    }
    Ok(())
}

fn listener(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let epoll = instance()?;
    let (listener, address) = ip.listener()?;
    add(&epoll, &listener, IN | ET, 1)?;
    record.add("idle", now(&epoll, 8));
    let _clients = [TcpStream::connect(address)?, TcpStream::connect(address)?];
    settle();
    record.add("connections", now(&epoll, 8));
    record.add("again", now(&epoll, 8));
    listener.accept()?;
    record.add("accepted one", now(&epoll, 8));
    modify(&epoll, &listener, IN, 2)?;
    record.add("level", now(&epoll, 8));
    listener.accept()?;
    record.add("accepted both", now(&epoll, 8));
    Ok(())
}

fn datagrams(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let epoll = instance()?;
    let (first, second) = ip.connected_datagrams()?;
    add(&epoll, &second, IN | ET, 1)?;
    record.add("idle", now(&epoll, 8));
    for what in ["one", "two"] {
        first.send(b"datagram")?;
        settle();
        record.add(what, now(&epoll, 8));
        record.add("again", now(&epoll, 8));
    }
    receive(&second)?;
    modify(&epoll, &second, IN, 2)?;
    record.add("left", now(&epoll, 8));
    receive(&second)?;
    record.add("received", now(&epoll, 8));
    Ok(())
}

fn pipe(record: &mut Transcript) -> CheckResult {
    let epoll = instance()?;
    let (reader, writer) = io::pipe()?;
    add(&epoll, &reader, IN | ET, 1)?;
    add(&epoll, &writer, OUT, 2)?;
    record.add("fresh", now(&epoll, 8));
    remove(&epoll, &writer)?;
    for what in ["data", "more"] {
        sys::write(&writer, b"data")?;
        record.add(what, now(&epoll, 8));
        record.add("again", now(&epoll, 8));
    }
    drop(writer);
    record.add("writer closed", now(&epoll, 8));
    record.add("again", now(&epoll, 8));
    let (reader, writer) = io::pipe()?;
    add(&epoll, &writer, 0, 3)?;
    drop(reader);
    record.add("reader closed", now(&epoll, 8));
    Ok(())
}

fn turns(record: &mut Transcript) -> CheckResult {
    let epoll = instance()?;
    let counters = [ready_counter()?, ready_counter()?, ready_counter()?];
    for (data, counter) in (1..).zip(&counters) {
        add(&epoll, counter, IN, data)?;
    }
    for _ in 0..4 {
        record.add("two", now(&epoll, 2));
    }
    record.add("all", now(&epoll, 8));
    Ok(())
}
