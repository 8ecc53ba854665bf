//! How connections end: with their data, or with a reset.
//!
//! A close sends FIN after the data that is not sent yet. TCP resets the connection instead if received data
//! is unread, if more data arrives after the close, or if `SO_LINGER` has the time 0. With another time,
//! `close` waits until the data is acknowledged. The rows close one side in each of these states and record
//! how reads and writes of the other side end.

use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use crate::record::Transcript;
use crate::support::{IpVersion, at_once, fill, join, peek, read, settle, takes, write};
use crate::{Check, CheckResult, NamedCheck, sys};

pub(crate) const ROWS: [NamedCheck; 18] = [
    ("unread_data", Check::PerVersion(unread_data)),
    ("unread_data_both", Check::PerVersion(unread_data_both)),
    ("unread_data_and_data_sent", Check::PerVersion(unread_data_and_data_sent)),
    ("write_to_the_closed", Check::PerVersion(write_to_the_closed)),
    ("data_before_the_end", Check::PerVersion(data_before_the_end)),
    ("linger_default", Check::PerVersion(linger_default)),
    ("linger_0_resets", Check::PerVersion(linger_0_resets)),
    ("linger_0_loses_data", Check::PerVersion(linger_0_loses_data)),
    ("linger_after_shutdown", Check::PerVersion(linger_after_shutdown)),
    ("linger_waits", Check::PerVersion(linger_waits)),
    ("linger_does_not_wait_for_nothing", Check::PerVersion(linger_does_not_wait_for_nothing)),
    ("no_linger_does_not_wait", Check::PerVersion(no_linger_does_not_wait)),
    ("reset_wakes_reader", Check::PerVersion(reset_wakes_reader)),
    ("reset_wakes_writer", Check::PerVersion(reset_wakes_writer)),
    ("reset_cuts_a_write_short", Check::PerVersion(reset_cuts_a_write_short)),
    ("reset_with_data_waiting", Check::PerVersion(reset_with_data_waiting)),
    ("reset_then_everything", Check::PerVersion(reset_then_everything)),
    ("both_at_once", Check::PerVersion(both_at_once)),
];

/// Closes with a linger time of 0, which sends a reset.
fn reset(stream: TcpStream) -> CheckResult {
    sys::set_linger(&stream, Some(0))?;
    drop(stream);
    settle();
    Ok(())
}

/// Closing with unread data resets the connection.
fn unread_data(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    write(&client, b"never read")?;
    settle();
    drop(server);
    settle();
    record.add("read", read(&client));
    record.add("read again", read(&client));
    record.add("write", write(&client, b"a"));
    Ok(())
}

fn unread_data_both(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    write(&client, b"never read")?;
    settle();
    drop(server);
    settle();
    record.add("write", write(&client, b"a"));
    record.add("write again", write(&client, b"a"));
    record.add("read", read(&client));
    Ok(())
}

fn unread_data_and_data_sent(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    write(&client, b"never read")?;
    write(&server, b"sent before")?;
    settle();
    drop(server);
    settle();
    record.add("peek", peek(&client));
    record.add("read", read(&client));
    record.add("read again", read(&client));
    Ok(())
}

fn write_to_the_closed(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    drop(server);
    settle();
    record.add("write", write(&client, b"a"));
    settle();
    record.add("write again", write(&client, b"a"));
    record.add("read", read(&client));
    record.add("error", client.take_error());
    Ok(())
}

fn data_before_the_end(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    write(&server, b"last words")?;
    drop(server);
    settle();
    record.add("write", write(&client, b"a"));
    settle();
    // Data sent before the close is still delivered.
    record.add("read", read(&client));
    record.add("read again", read(&client));
    Ok(())
}

fn linger_default(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, _server) = ip.pair()?;
    record.add("at first", sys::linger(&client));
    for value in [Some(5), Some(0), None] {
        sys::set_linger(&client, value)?;
        record.add("then", sys::linger(&client));
    }
    Ok(())
}

fn linger_0_resets(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    reset(server)?;
    record.add("peek", peek(&client));
    record.add("read", read(&client));
    record.add("write", write(&client, b"a"));
    Ok(())
}

fn linger_0_loses_data(record: &mut Transcript, ip: IpVersion) -> CheckResult {
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
    record.add("all arrived", received == sent);
    Ok(())
}

/// A connection that is shut down and drained ends without a reset.
fn linger_after_shutdown(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    write(&server, b"bye")?;
    server.shutdown(Shutdown::Write)?;
    record.add("client reads", read(&client));
    record.add("and the end", read(&client));
    client.shutdown(Shutdown::Write)?;
    settle();
    record.add("server reads", read(&server));
    reset(server)?;
    record.add("client reads", read(&client));
    Ok(())
}

fn linger_waits(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    fill(&server)?;
    sys::set_linger(&server, Some(1))?;
    let ((), time) = takes(Duration::from_secs(1), || drop(server));
    record.add("close", time);
    drop(client);
    Ok(())
}

fn linger_does_not_wait_for_nothing(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    sys::set_linger(&server, Some(20))?;
    write(&server, b"arrives")?;
    let ((), time) = at_once(|| drop(server));
    record.add("close", time);
    record.add("read", read(&client));
    Ok(())
}

/// All data is delivered nevertheless.
fn no_linger_does_not_wait(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    let sent = fill(&server)?;
    let ((), time) = at_once(|| drop(server));
    record.add("close", time);
    let mut received = 0;
    loop {
        match read(&client)?.len() {
            0 => break,
            size => received += size,
        }
    }
    record.add("all arrived", received == sent);
    Ok(())
}

fn reset_wakes_reader(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    let result = std::thread::scope(|scope| {
        let reader = scope.spawn(|| read(&client));
        settle();
        reset(server)?;
        Ok::<_, std::io::Error>(join(reader))
    })?;
    record.add("read", result);
    Ok(())
}

fn reset_wakes_writer(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    fill(&client)?;
    let result = std::thread::scope(|scope| {
        let writer = scope.spawn(|| write(&client, b"does not fit"));
        settle();
        drop(server);
        Ok::<_, std::io::Error>(join(writer))
    })?;
    record.add("write", result);
    record.add("write again", write(&client, b"a"));
    Ok(())
}

/// A partial write returns no error: the next call, whichever it is, returns it.
fn reset_cuts_a_write_short(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let much = vec![0; 2 << 20];
    let mut cut_short = || {
        let (client, server) = ip.small_pair()?;
        let size = std::thread::scope(|scope| {
            let writer = scope.spawn(|| write(&client, &much));
            peek(&server)?;
            reset(server)?;
            join(writer)
        })?;
        record.add("a part was taken", size > 0 && size < much.len());
        Ok::<_, std::io::Error>(client)
    };
    let (first, second, third) = (cut_short()?, cut_short()?, cut_short()?);
    record.add("read", read(&first));
    record.add("read again", read(&first));
    record.add("write", write(&second, b"a"));
    record.add("write again", write(&second, b"a"));
    record.add("error", third.take_error());
    record.add("read", read(&third));
    Ok(())
}

fn reset_with_data_waiting(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    write(&server, b"unread")?;
    settle();
    reset(server)?;
    record.add("peek", peek(&client));
    record.add("read", read(&client));
    record.add("read again", read(&client));
    Ok(())
}

fn reset_then_everything(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    reset(server)?;
    record.add("peer", client.peer_addr());
    record.add("local", client.local_addr());
    record.add("shutdown", client.shutdown(Shutdown::Both));
    record.add("error", client.take_error());
    record.add("error again", client.take_error());
    record.add("read", read(&client));
    record.add("write", write(&client, b"a"));
    record.add("no delay", client.set_nodelay(true));
    Ok(())
}

fn both_at_once(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    client.shutdown(Shutdown::Write)?;
    server.shutdown(Shutdown::Write)?;
    record.add("client reads", read(&client));
    record.add("server reads", read(&server));
    record.add("client writes", write(&client, b"a"));
    settle();
    record.add("shutdown", client.shutdown(Shutdown::Both));
    record.add("peer", client.peer_addr());
    Ok(())
}
