//! Shutting down one direction of a connection or both, in every order, and the effect on each side.
//!
//! Shutting down for writing sends FIN after the pending data; the other direction stays usable. Shutting
//! down for reading sends nothing: it makes reads return the end of the stream. The rows do both, in both
//! orders, with and without data in flight, on connected and unconnected sockets.

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;

use crate::record::Transcript;
use crate::support::{IpVersion, at_once, fill, join, peek, read, settle, write};
use crate::{Check, CheckResult, NamedCheck, sys};

pub(crate) const ROWS: [NamedCheck; 19] = [
    ("write", Check::PerVersion(write_half)),
    ("write_with_data", Check::PerVersion(write_with_data)),
    ("write_then_answer", Check::PerVersion(write_then_answer)),
    ("read", Check::PerVersion(read_half)),
    ("read_with_data", Check::PerVersion(read_with_data)),
    ("read_then_data", Check::PerVersion(read_then_data)),
    ("both", Check::PerVersion(both)),
    ("both_with_data", Check::PerVersion(both_with_data)),
    ("read_then_write", Check::PerVersion(read_then_write)),
    ("write_then_read", Check::PerVersion(write_then_read)),
    ("twice", Check::PerVersion(twice)),
    ("by_both_sides", Check::PerVersion(by_both_sides)),
    ("after_the_end", Check::PerVersion(after_the_end)),
    ("unconnected", Check::PerVersion(unconnected)),
    ("of_listener", Check::PerVersion(of_listener)),
    ("wakes_reader", Check::PerVersion(wakes_reader)),
    ("wakes_writer", Check::PerVersion(wakes_writer)),
    ("wakes_accepting", Check::PerVersion(wakes_accepting)),
    ("by_a_clone", Check::PerVersion(by_a_clone)),
];

fn write_half(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    record.add("shutdown", client.shutdown(Shutdown::Write));
    record.add("client writes", write(&client, b"a"));
    record.add("client writes nothing", write(&client, b""));
    record.add("server peeks", peek(&server));
    record.add("server reads", read(&server));
    record.add("server reads again", read(&server));
    record.add("server writes", write(&server, b"other way"));
    record.add("client reads", read(&client));
    drop(server);
    record.add("client reads the end", read(&client));
    Ok(())
}

fn write_with_data(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    write(&client, b"data")?;
    client.shutdown(Shutdown::Write)?;
    settle();
    record.add("server peeks", peek(&server));
    record.add("server reads", read(&server));
    record.add("server reads again", read(&server));
    Ok(())
}

/// A request that ends with a shutdown, and the response to it.
fn write_then_answer(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    let request = crate::support::pattern(1, 300_000);
    let answer = thread::scope(|scope| {
        let served = scope.spawn(|| {
            let mut bytes = Vec::new();
            io::Read::read_to_end(&mut &server, &mut bytes)?;
            io::Write::write_all(&mut &server, &bytes)?;
            server.shutdown(Shutdown::Write)
        });
        io::Write::write_all(&mut &client, &request)?;
        client.shutdown(Shutdown::Write)?;
        let mut answer = Vec::new();
        io::Read::read_to_end(&mut &client, &mut answer)?;
        record.add("server", join(served));
        Ok::<_, io::Error>(answer)
    })?;
    record.add("answer is the request", answer == request);
    Ok(())
}

fn read_half(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    record.add("shutdown", client.shutdown(Shutdown::Read));
    record.add("client reads", read(&client));
    record.add("client peeks", peek(&client));
    record.add("client writes", write(&client, b"other way"));
    record.add("server reads", read(&server));
    settle();
    server.set_nonblocking(true)?;
    record.add("server reads again", read(&server));
    Ok(())
}

/// Received data can still be read.
fn read_with_data(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    write(&server, b"data")?;
    settle();
    client.shutdown(Shutdown::Read)?;
    record.add("client peeks", peek(&client));
    record.add("client reads", read(&client));
    record.add("client reads again", read(&client));
    Ok(())
}

fn read_then_data(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    client.shutdown(Shutdown::Read)?;
    record.add("server writes", write(&server, b"late"));
    settle();
    record.add("client reads", read(&client));
    record.add("client reads again", read(&client));
    record.add("server writes again", write(&server, b"later"));
    Ok(())
}

fn both(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    record.add("shutdown", client.shutdown(Shutdown::Both));
    record.add("client reads", read(&client));
    record.add("client writes", write(&client, b"a"));
    record.add("server reads", read(&server));
    record.add("server writes", write(&server, b"a"));
    settle();
    record.add("server writes again", write(&server, b"a"));
    record.add("client reads", read(&client));
    Ok(())
}

fn both_with_data(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    write(&client, b"to the server")?;
    write(&server, b"to the client")?;
    settle();
    client.shutdown(Shutdown::Both)?;
    settle();
    record.add("client reads", read(&client));
    record.add("client reads again", read(&client));
    record.add("server reads", read(&server));
    record.add("server reads again", read(&server));
    Ok(())
}

fn read_then_write(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    record.add("read half", client.shutdown(Shutdown::Read));
    record.add("client writes", write(&client, b"between"));
    record.add("write half", client.shutdown(Shutdown::Write));
    record.add("client writes", write(&client, b"a"));
    record.add("client reads", read(&client));
    settle();
    record.add("server reads", read(&server));
    record.add("server reads again", read(&server));
    Ok(())
}

fn write_then_read(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    record.add("write half", client.shutdown(Shutdown::Write));
    record.add("server reads", read(&server));
    write(&server, b"between")?;
    settle();
    record.add("read half", client.shutdown(Shutdown::Read));
    record.add("client reads", read(&client));
    record.add("client reads again", read(&client));
    record.add("client writes", write(&client, b"a"));
    Ok(())
}

fn twice(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    for how in [Shutdown::Write, Shutdown::Read, Shutdown::Both] {
        let (client, _server) = ip.pair()?;
        record.add("once", client.shutdown(how));
        record.add("twice", client.shutdown(how));
    }
    Ok(())
}

fn by_both_sides(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    record.add("client", client.shutdown(Shutdown::Write));
    settle();
    record.add("server", server.shutdown(Shutdown::Write));
    settle();
    record.add("client reads", read(&client));
    record.add("server reads", read(&server));
    // Both directions are shut down already.
    record.add("server again", server.shutdown(Shutdown::Both));
    record.add("server writes", write(&server, b"a"));
    record.add("server's peer", server.peer_addr());
    record.add("client again", client.shutdown(Shutdown::Both));
    Ok(())
}

fn after_the_end(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    drop(server);
    settle();
    record.add("read", read(&client));
    record.add("shutdown", client.shutdown(Shutdown::Read));
    record.add("write half", client.shutdown(Shutdown::Write));
    settle();
    record.add("again", client.shutdown(Shutdown::Write));
    record.add("write", write(&client, b"a"));
    Ok(())
}

fn unconnected(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let socket = TcpStream::from(ip.stream_socket()?);
    for how in [Shutdown::Read, Shutdown::Write, Shutdown::Both] {
        record.add("fresh", socket.shutdown(how));
    }
    record.add("unknown half", sys::shutdown(&socket, 3));
    let (client, _server) = ip.pair()?;
    record.add("unknown half of a connection", sys::shutdown(&client, 3));
    record.add("negative half", sys::shutdown(&client, -1));
    Ok(())
}

fn of_listener(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (listener, address) = ip.listener()?;
    record.add("write half", sys::shutdown(&listener, sys::SHUT_WR));
    record.add("connect", TcpStream::connect(address).map(drop));
    record.add("accept", listener.accept().map(drop));
    record.add("read half", sys::shutdown(&listener, sys::SHUT_RD));
    record.add("connect", TcpStream::connect(address).map(drop));
    record.add("accept", listener.accept().map(drop));
    // The listener is an ordinary socket again.
    record.add("listen", sys::listen(&listener, 1));
    record.add("connect", TcpStream::connect(address).map(drop));
    Ok(())
}

/// Runs an action while another thread is blocked; returns that thread's result.
fn meanwhile<T: Send>(
    waits: impl FnOnce() -> io::Result<T> + Send,
    action: impl FnOnce() -> io::Result<()>,
) -> io::Result<T> {
    thread::scope(|scope| {
        let waiting = scope.spawn(waits);
        settle();
        action()?;
        join(waiting)
    })
}

fn wakes_reader(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, _server) = ip.pair()?;
    let (result, time) = at_once(|| meanwhile(|| read(&client), || client.shutdown(Shutdown::Read)));
    record.add("read", result);
    record.add("woken", time);
    Ok(())
}

fn wakes_writer(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, _server) = ip.pair()?;
    fill(&client)?;
    let shut = || client.shutdown(Shutdown::Write);
    let (result, time) = at_once(|| meanwhile(|| write(&client, b"does not fit"), shut));
    record.add("write", result);
    record.add("woken", time);
    Ok(())
}

fn wakes_accepting(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (listener, _) = ip.listener()?;
    let accept = |listener: &TcpListener| listener.accept().map(drop);
    let shut = || sys::shutdown(&listener, sys::SHUT_RDWR);
    let (result, time) = at_once(|| meanwhile(|| accept(&listener), shut));
    record.add("accept", result);
    record.add("woken", time);
    Ok(())
}

/// A shutdown affects the connection, not the descriptor.
fn by_a_clone(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let (client, server) = ip.pair()?;
    client.try_clone()?.shutdown(Shutdown::Write)?;
    record.add("client writes", write(&client, b"a"));
    record.add("server reads", read(&server));
    Ok(())
}
