//! How connections end: with their data or without.

use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use crate::notes::Notes;
use crate::support::{Ip, at_once, fill, join, peek, read, settle, takes, write};
use crate::{Check, Outcome, Row, sys};

pub(crate) const ROWS: [Row; 18] = [
    ("unread_data", Check::Versions(unread_data)),
    ("unread_data_both", Check::Versions(unread_data_both)),
    ("unread_data_and_data_sent", Check::Versions(unread_data_and_data_sent)),
    ("write_to_the_closed", Check::Versions(write_to_the_closed)),
    ("data_before_the_end", Check::Versions(data_before_the_end)),
    ("linger_default", Check::Versions(linger_default)),
    ("linger_0_resets", Check::Versions(linger_0_resets)),
    ("linger_0_loses_data", Check::Versions(linger_0_loses_data)),
    ("linger_after_shutdown", Check::Versions(linger_after_shutdown)),
    ("linger_waits", Check::Versions(linger_waits)),
    ("linger_does_not_wait_for_nothing", Check::Versions(linger_does_not_wait_for_nothing)),
    ("no_linger_does_not_wait", Check::Versions(no_linger_does_not_wait)),
    ("reset_wakes_reader", Check::Versions(reset_wakes_reader)),
    ("reset_wakes_writer", Check::Versions(reset_wakes_writer)),
    ("reset_cuts_a_write_short", Check::Versions(reset_cuts_a_write_short)),
    ("reset_with_data_waiting", Check::Versions(reset_with_data_waiting)),
    ("reset_then_everything", Check::Versions(reset_then_everything)),
    ("both_at_once", Check::Versions(both_at_once)),
];

/// Closes so that the other side is told of a reset.
fn reset(stream: TcpStream) -> Outcome {
    sys::set_linger(&stream, Some(0))?;
    drop(stream);
    settle();
    Ok(())
}

/// Who closes without having read everything resets the connection.
fn unread_data(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    write(&client, b"never read")?;
    settle();
    drop(server);
    settle();
    notes.add("read", read(&client));
    notes.add("read again", read(&client));
    notes.add("write", write(&client, b"a"));
    Ok(())
}

fn unread_data_both(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    write(&client, b"never read")?;
    settle();
    drop(server);
    settle();
    notes.add("write", write(&client, b"a"));
    notes.add("write again", write(&client, b"a"));
    notes.add("read", read(&client));
    Ok(())
}

fn unread_data_and_data_sent(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    write(&client, b"never read")?;
    write(&server, b"sent before")?;
    settle();
    drop(server);
    settle();
    notes.add("peek", peek(&client));
    notes.add("read", read(&client));
    notes.add("read again", read(&client));
    Ok(())
}

fn write_to_the_closed(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    drop(server);
    settle();
    notes.add("write", write(&client, b"a"));
    settle();
    notes.add("write again", write(&client, b"a"));
    notes.add("read", read(&client));
    notes.add("error", client.take_error());
    Ok(())
}

fn data_before_the_end(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    write(&server, b"last words")?;
    drop(server);
    settle();
    notes.add("write", write(&client, b"a"));
    settle();
    // What was sent before survives that the other side is gone.
    notes.add("read", read(&client));
    notes.add("read again", read(&client));
    Ok(())
}

fn linger_default(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, _server) = ip.pair()?;
    notes.add("at first", sys::linger(&client));
    for value in [Some(5), Some(0), None] {
        sys::set_linger(&client, value)?;
        notes.add("then", sys::linger(&client));
    }
    Ok(())
}

fn linger_0_resets(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    reset(server)?;
    notes.add("peek", peek(&client));
    notes.add("read", read(&client));
    notes.add("write", write(&client, b"a"));
    Ok(())
}

fn linger_0_loses_data(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    let sent = fill(&server)?;
    reset(server)?;
    let mut received = 0;
    while let Ok(bytes) = read(&client) {
        received += bytes.len();
        if bytes.is_empty() {
            break;
        }
    }
    notes.add("all arrived", received == sent);
    Ok(())
}

/// A connection that is shut down and drained ends without a reset.
fn linger_after_shutdown(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    write(&server, b"bye")?;
    server.shutdown(Shutdown::Write)?;
    notes.add("client reads", read(&client));
    notes.add("and the end", read(&client));
    client.shutdown(Shutdown::Write)?;
    settle();
    notes.add("server reads", read(&server));
    reset(server)?;
    notes.add("client reads", read(&client));
    Ok(())
}

fn linger_waits(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    fill(&server)?;
    sys::set_linger(&server, Some(1))?;
    let ((), time) = takes(Duration::from_secs(1), || drop(server));
    notes.add("close", time);
    drop(client);
    Ok(())
}

fn linger_does_not_wait_for_nothing(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    sys::set_linger(&server, Some(20))?;
    write(&server, b"arrives")?;
    let ((), time) = at_once(|| drop(server));
    notes.add("close", time);
    notes.add("read", read(&client));
    Ok(())
}

/// Everything arrives all the same.
fn no_linger_does_not_wait(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    let sent = fill(&server)?;
    let ((), time) = at_once(|| drop(server));
    notes.add("close", time);
    let mut received = 0;
    loop {
        match read(&client)?.len() {
            0 => break,
            size => received += size,
        }
    }
    notes.add("all arrived", received == sent);
    Ok(())
}

fn reset_wakes_reader(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    let result = std::thread::scope(|scope| {
        let reader = scope.spawn(|| read(&client));
        settle();
        reset(server)?;
        Ok::<_, std::io::Error>(join(reader))
    })?;
    notes.add("read", result);
    Ok(())
}

fn reset_wakes_writer(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    fill(&client)?;
    let result = std::thread::scope(|scope| {
        let writer = scope.spawn(|| write(&client, b"does not fit"));
        settle();
        drop(server);
        Ok::<_, std::io::Error>(join(writer))
    })?;
    notes.add("write", result);
    notes.add("write again", write(&client, b"a"));
    Ok(())
}

/// A write of which a part was taken has no error: that is for the next call, whichever it is.
fn reset_cuts_a_write_short(notes: &mut Notes, ip: Ip) -> Outcome {
    let much = vec![0; 2 << 20];
    let mut cut_short = || {
        let (client, server) = ip.small_pair()?;
        let size = std::thread::scope(|scope| {
            let writer = scope.spawn(|| write(&client, &much));
            peek(&server)?;
            reset(server)?;
            join(writer)
        })?;
        notes.add("a part was taken", size > 0 && size < much.len());
        Ok::<_, std::io::Error>(client)
    };
    let (first, second, third) = (cut_short()?, cut_short()?, cut_short()?);
    notes.add("read", read(&first));
    notes.add("read again", read(&first));
    notes.add("write", write(&second, b"a"));
    notes.add("write again", write(&second, b"a"));
    notes.add("error", third.take_error());
    notes.add("read", read(&third));
    Ok(())
}

fn reset_with_data_waiting(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    write(&server, b"unread")?;
    settle();
    reset(server)?;
    notes.add("peek", peek(&client));
    notes.add("read", read(&client));
    notes.add("read again", read(&client));
    Ok(())
}

fn reset_then_everything(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    reset(server)?;
    notes.add("peer", client.peer_addr());
    notes.add("local", client.local_addr());
    notes.add("shutdown", client.shutdown(Shutdown::Both));
    notes.add("error", client.take_error());
    notes.add("error again", client.take_error());
    notes.add("read", read(&client));
    notes.add("write", write(&client, b"a"));
    notes.add("no delay", client.set_nodelay(true));
    Ok(())
}

fn both_at_once(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    client.shutdown(Shutdown::Write)?;
    server.shutdown(Shutdown::Write)?;
    notes.add("client reads", read(&client));
    notes.add("server reads", read(&server));
    notes.add("client writes", write(&client, b"a"));
    settle();
    notes.add("shutdown", client.shutdown(Shutdown::Both));
    notes.add("peer", client.peer_addr());
    Ok(())
}
