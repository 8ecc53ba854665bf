//! Waiting with poll: for datagrams, for counters, for several things at once, and for nothing.

use std::io;
use std::os::fd::{AsFd, RawFd};
use std::thread;
use std::time::Duration;

use std::net::TcpStream;

use crate::notes::Notes;
use crate::support::{Ip, at_once, fill, join, read, receive, settle, takes, write};
use crate::{Check, Outcome, Row, sys};

pub(crate) const ROWS: [Row; 14] = [
    ("datagrams", Check::Versions(datagrams)),
    ("datagrams_refused", Check::Versions(datagrams_refused)),
    ("datagrams_shut_down", Check::Versions(datagrams_shut_down)),
    ("several", Check::Versions(several)),
    ("none", Check::Plain(none)),
    ("not_open", Check::Plain(not_open)),
    ("time_passes", Check::Versions(time_passes)),
    ("woken_by_data", Check::Versions(woken_by_data)),
    ("woken_by_connection", Check::Versions(woken_by_connection)),
    ("woken_by_end", Check::Versions(woken_by_end)),
    ("woken_by_room", Check::Versions(woken_by_room)),
    ("woken_by_datagram", Check::Versions(woken_by_datagram)),
    ("woken_by_counter", Check::Versions(woken_by_counter)),
    ("counter", Check::Plain(counter)),
];

/// Longer than anybody has patience, in milliseconds.
const LONG: i32 = 20_000;

/// Every event that can be asked for.
pub(crate) const EVERYTHING: i16 =
    sys::POLLIN | sys::POLLPRI | sys::POLLOUT | sys::POLLRDHUP | sys::POLLRDNORM | sys::POLLWRNORM;

/// The events by name.
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

/// The events of one descriptor now.
pub(crate) fn show(fd: &impl AsFd, events: i16) -> io::Result<String> {
    let (_, found) = sys::poll(&[(sys::raw(fd), events)], 0)?;
    Ok(found.into_iter().map(names).collect())
}

/// How many are ready and what each has, after a wait of at most so long.
fn wait(questions: &[(RawFd, i16)], milliseconds: i32) -> io::Result<String> {
    let (ready, events) = sys::poll(questions, milliseconds)?;
    let events: Vec<String> = events.into_iter().map(names).collect();
    Ok(format!("{ready}: {}", events.join(" ")))
}

fn datagrams(notes: &mut Notes, ip: Ip) -> Outcome {
    notes.add("fresh", show(&ip.datagram_socket()?, EVERYTHING));
    let (one, other) = ip.connected_datagrams()?;
    notes.add("idle", show(&other, EVERYTHING));
    one.send(b"")?;
    settle();
    notes.add("an empty one", show(&other, EVERYTHING));
    receive(&other)?;
    notes.add("received", show(&other, EVERYTHING));
    Ok(())
}

fn datagrams_refused(notes: &mut Notes, ip: Ip) -> Outcome {
    let (socket, _) = ip.datagrams()?;
    socket.connect(ip.silent_datagram_address()?)?;
    socket.send(b"anybody?")?;
    settle();
    notes.add("refused", show(&socket, EVERYTHING));
    notes.add("nothing asked", show(&socket, 0));
    notes.add("error", socket.take_error());
    notes.add("taken", show(&socket, EVERYTHING));
    Ok(())
}

fn datagrams_shut_down(notes: &mut Notes, ip: Ip) -> Outcome {
    let (one, other) = ip.connected_datagrams()?;
    sys::shutdown(&one, sys::SHUT_RD)?;
    notes.add("reading", show(&one, EVERYTHING));
    sys::shutdown(&other, sys::SHUT_WR)?;
    notes.add("writing", show(&other, EVERYTHING));
    sys::shutdown(&one, sys::SHUT_RDWR)?;
    notes.add("both", show(&one, EVERYTHING));
    Ok(())
}

fn several(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    let (one, other) = ip.connected_datagrams()?;
    let (listener, _) = ip.listener()?;
    let questions = [
        (sys::raw(&server), sys::POLLIN),
        (sys::raw(&client), sys::POLLIN | sys::POLLOUT),
        (sys::raw(&other), sys::POLLIN),
        (sys::raw(&listener), sys::POLLIN),
    ];
    notes.add("one", wait(&questions, LONG));
    write(&client, b"data")?;
    one.send(b"data")?;
    settle();
    notes.add("three", wait(&questions, LONG));
    // The same descriptor may be there twice.
    let twice = [questions, questions].concat();
    notes.add("six", wait(&twice, LONG));
    Ok(())
}

fn none(notes: &mut Notes) -> Outcome {
    let limit = Duration::from_millis(60);
    let (result, time) = takes(limit, || wait(&[], 60));
    notes.add("nothing", result);
    notes.add("it ends", time);
    let (result, time) = takes(limit, || wait(&[(-1, EVERYTHING)], 60));
    notes.add("a negative number", result);
    notes.add("it ends", time);
    Ok(())
}

fn not_open(notes: &mut Notes) -> Outcome {
    let (client, _server) = Ip::V4.pair()?;
    let nowhere = sys::raw(&sys::nowhere());
    notes.add("alone", wait(&[(nowhere, sys::POLLIN)], LONG));
    notes.add("nothing asked", wait(&[(nowhere, 0)], LONG));
    notes.add("among others", wait(&[(nowhere, sys::POLLIN), (sys::raw(&client), sys::POLLIN)], LONG));
    let number = sys::raw(&client);
    drop(client);
    notes.add("closed", wait(&[(number, sys::POLLIN)], 0));
    Ok(())
}

fn time_passes(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, _server) = ip.pair()?;
    let (result, time) = takes(Duration::from_millis(80), || wait(&[(sys::raw(&client), sys::POLLIN)], 80));
    notes.add("wait", result);
    notes.add("it ends", time);
    let (result, time) = at_once(|| wait(&[(sys::raw(&client), sys::POLLIN)], 0));
    notes.add("no wait", result);
    notes.add("it ends", time);
    Ok(())
}

/// Waits, while something is done a little later.
fn woken(
    notes: &mut Notes,
    fd: RawFd,
    events: i16,
    action: impl FnOnce() -> io::Result<()> + Send,
) -> Outcome {
    let (result, time) = at_once(|| {
        thread::scope(|scope| {
            let waiter = scope.spawn(move || wait(&[(fd, events)], LONG));
            settle();
            action()?;
            join(waiter)
        })
    });
    notes.add("woken", result);
    notes.add("it ends", time);
    Ok(())
}

fn woken_by_data(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    woken(notes, sys::raw(&server), sys::POLLIN, || write(&client, b"data").map(drop))
}

fn woken_by_connection(notes: &mut Notes, ip: Ip) -> Outcome {
    let (listener, address) = ip.listener()?;
    let mut client = None;
    woken(notes, sys::raw(&listener), sys::POLLIN, || {
        client = Some(TcpStream::connect(address)?);
        Ok(())
    })
}

fn woken_by_end(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    woken(notes, sys::raw(&server), sys::POLLIN, move || {
        drop(client);
        Ok(())
    })
}

fn woken_by_room(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    let sent = fill(&client)?;
    woken(notes, sys::raw(&client), sys::POLLOUT, || {
        let mut received = 0;
        while received < sent {
            received += read(&server)?.len();
        }
        Ok(())
    })
}

fn woken_by_datagram(notes: &mut Notes, ip: Ip) -> Outcome {
    let (one, other) = ip.connected_datagrams()?;
    woken(notes, sys::raw(&other), sys::POLLIN, || one.send(b"data").map(drop))
}

/// A counter wakes who waits for it and for sockets: how event loops are told of what is no socket's.
fn woken_by_counter(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, _server) = ip.pair()?;
    let counter = sys::eventfd()?;
    let questions = [(sys::raw(&client), sys::POLLIN), (sys::raw(&counter), sys::POLLIN)];
    let result = thread::scope(|scope| {
        let waiter = scope.spawn(move || wait(&questions, LONG));
        settle();
        sys::write(&counter, &1_u64.to_ne_bytes())?;
        join(waiter)
    });
    notes.add("woken", result);
    let mut number = [0; 8];
    notes.add("read", sys::read(&counter, &mut number));
    notes.add("number", u64::from_ne_bytes(number));
    notes.add("then", wait(&questions, 0));
    Ok(())
}

fn counter(notes: &mut Notes) -> Outcome {
    let counter = sys::eventfd()?;
    notes.add("at first", show(&counter, sys::POLLIN | sys::POLLOUT));
    sys::write(&counter, &3_u64.to_ne_bytes())?;
    notes.add("counted", show(&counter, sys::POLLIN | sys::POLLOUT));
    sys::write(&counter, &(u64::MAX - 4).to_ne_bytes())?;
    notes.add("full", show(&counter, sys::POLLIN | sys::POLLOUT));
    Ok(())
}
