//! Ending one direction of a connection or both, in every order, and what each side sees then.

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;

use crate::notes::Notes;
use crate::support::{Ip, at_once, fill, join, peek, read, settle, write};
use crate::{Check, Outcome, Row, sys};

pub(crate) const ROWS: [Row; 19] = [
    ("write", Check::Versions(write_half)),
    ("write_with_data", Check::Versions(write_with_data)),
    ("write_then_answer", Check::Versions(write_then_answer)),
    ("read", Check::Versions(read_half)),
    ("read_with_data", Check::Versions(read_with_data)),
    ("read_then_data", Check::Versions(read_then_data)),
    ("both", Check::Versions(both)),
    ("both_with_data", Check::Versions(both_with_data)),
    ("read_then_write", Check::Versions(read_then_write)),
    ("write_then_read", Check::Versions(write_then_read)),
    ("twice", Check::Versions(twice)),
    ("by_both_sides", Check::Versions(by_both_sides)),
    ("after_the_end", Check::Versions(after_the_end)),
    ("unconnected", Check::Versions(unconnected)),
    ("of_listener", Check::Versions(of_listener)),
    ("wakes_reader", Check::Versions(wakes_reader)),
    ("wakes_writer", Check::Versions(wakes_writer)),
    ("wakes_accepting", Check::Versions(wakes_accepting)),
    ("by_a_clone", Check::Versions(by_a_clone)),
];

fn write_half(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    notes.add("shutdown", client.shutdown(Shutdown::Write));
    notes.add("client writes", write(&client, b"a"));
    notes.add("client writes nothing", write(&client, b""));
    notes.add("server peeks", peek(&server));
    notes.add("server reads", read(&server));
    notes.add("server reads again", read(&server));
    notes.add("server writes", write(&server, b"other way"));
    notes.add("client reads", read(&client));
    drop(server);
    notes.add("client reads the end", read(&client));
    Ok(())
}

fn write_with_data(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    write(&client, b"data")?;
    client.shutdown(Shutdown::Write)?;
    settle();
    notes.add("server peeks", peek(&server));
    notes.add("server reads", read(&server));
    notes.add("server reads again", read(&server));
    Ok(())
}

/// A request that ends, and an answer to it.
fn write_then_answer(notes: &mut Notes, ip: Ip) -> Outcome {
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
        notes.add("server", join(served));
        Ok::<_, io::Error>(answer)
    })?;
    notes.add("answer is the request", answer == request);
    Ok(())
}

fn read_half(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    notes.add("shutdown", client.shutdown(Shutdown::Read));
    notes.add("client reads", read(&client));
    notes.add("client peeks", peek(&client));
    notes.add("client writes", write(&client, b"other way"));
    notes.add("server reads", read(&server));
    settle();
    server.set_nonblocking(true)?;
    notes.add("server is not told", read(&server));
    Ok(())
}

/// What has arrived can still be read.
fn read_with_data(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    write(&server, b"data")?;
    settle();
    client.shutdown(Shutdown::Read)?;
    notes.add("client peeks", peek(&client));
    notes.add("client reads", read(&client));
    notes.add("client reads again", read(&client));
    Ok(())
}

fn read_then_data(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    client.shutdown(Shutdown::Read)?;
    notes.add("server writes", write(&server, b"late"));
    settle();
    notes.add("client reads", read(&client));
    notes.add("client reads again", read(&client));
    notes.add("server writes again", write(&server, b"later"));
    Ok(())
}

fn both(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    notes.add("shutdown", client.shutdown(Shutdown::Both));
    notes.add("client reads", read(&client));
    notes.add("client writes", write(&client, b"a"));
    notes.add("server reads", read(&server));
    notes.add("server writes", write(&server, b"a"));
    settle();
    notes.add("server writes again", write(&server, b"a"));
    notes.add("client reads", read(&client));
    Ok(())
}

fn both_with_data(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    write(&client, b"to the server")?;
    write(&server, b"to the client")?;
    settle();
    client.shutdown(Shutdown::Both)?;
    settle();
    notes.add("client reads", read(&client));
    notes.add("client reads again", read(&client));
    notes.add("server reads", read(&server));
    notes.add("server reads again", read(&server));
    Ok(())
}

fn read_then_write(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    notes.add("read half", client.shutdown(Shutdown::Read));
    notes.add("client writes", write(&client, b"between"));
    notes.add("write half", client.shutdown(Shutdown::Write));
    notes.add("client writes", write(&client, b"a"));
    notes.add("client reads", read(&client));
    settle();
    notes.add("server reads", read(&server));
    notes.add("server reads again", read(&server));
    Ok(())
}

fn write_then_read(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    notes.add("write half", client.shutdown(Shutdown::Write));
    notes.add("server reads", read(&server));
    write(&server, b"between")?;
    settle();
    notes.add("read half", client.shutdown(Shutdown::Read));
    notes.add("client reads", read(&client));
    notes.add("client reads again", read(&client));
    notes.add("client writes", write(&client, b"a"));
    Ok(())
}

fn twice(notes: &mut Notes, ip: Ip) -> Outcome {
    for how in [Shutdown::Write, Shutdown::Read, Shutdown::Both] {
        let (client, _server) = ip.pair()?;
        notes.add("once", client.shutdown(how));
        notes.add("twice", client.shutdown(how));
    }
    Ok(())
}

fn by_both_sides(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    notes.add("client", client.shutdown(Shutdown::Write));
    settle();
    notes.add("server", server.shutdown(Shutdown::Write));
    settle();
    notes.add("client reads", read(&client));
    notes.add("server reads", read(&server));
    // Nothing is left to be shut down.
    notes.add("server again", server.shutdown(Shutdown::Both));
    notes.add("server writes", write(&server, b"a"));
    notes.add("server's peer", server.peer_addr());
    notes.add("client again", client.shutdown(Shutdown::Both));
    Ok(())
}

fn after_the_end(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    drop(server);
    settle();
    notes.add("read", read(&client));
    notes.add("shutdown", client.shutdown(Shutdown::Read));
    notes.add("write half", client.shutdown(Shutdown::Write));
    settle();
    notes.add("again", client.shutdown(Shutdown::Write));
    notes.add("write", write(&client, b"a"));
    Ok(())
}

fn unconnected(notes: &mut Notes, ip: Ip) -> Outcome {
    let socket = TcpStream::from(ip.stream_socket()?);
    for how in [Shutdown::Read, Shutdown::Write, Shutdown::Both] {
        notes.add("fresh", socket.shutdown(how));
    }
    notes.add("unknown half", sys::shutdown(&socket, 3));
    let (client, _server) = ip.pair()?;
    notes.add("unknown half of a connection", sys::shutdown(&client, 3));
    notes.add("negative half", sys::shutdown(&client, -1));
    Ok(())
}

fn of_listener(notes: &mut Notes, ip: Ip) -> Outcome {
    let (listener, address) = ip.listener()?;
    notes.add("write half", sys::shutdown(&listener, sys::SHUT_WR));
    notes.add("connect", TcpStream::connect(address).map(drop));
    notes.add("accept", listener.accept().map(drop));
    notes.add("read half", sys::shutdown(&listener, sys::SHUT_RD));
    notes.add("connect", TcpStream::connect(address).map(drop));
    notes.add("accept", listener.accept().map(drop));
    // It is an ordinary socket again.
    notes.add("listen", sys::listen(&listener, 1));
    notes.add("connect", TcpStream::connect(address).map(drop));
    Ok(())
}

/// Does something while another thread waits, and gives what that thread got.
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

fn wakes_reader(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, _server) = ip.pair()?;
    let (result, time) = at_once(|| meanwhile(|| read(&client), || client.shutdown(Shutdown::Read)));
    notes.add("read", result);
    notes.add("woken", time);
    Ok(())
}

fn wakes_writer(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, _server) = ip.pair()?;
    fill(&client)?;
    let shut = || client.shutdown(Shutdown::Write);
    let (result, time) = at_once(|| meanwhile(|| write(&client, b"does not fit"), shut));
    notes.add("write", result);
    notes.add("woken", time);
    Ok(())
}

fn wakes_accepting(notes: &mut Notes, ip: Ip) -> Outcome {
    let (listener, _) = ip.listener()?;
    let accept = |listener: &TcpListener| listener.accept().map(drop);
    let shut = || sys::shutdown(&listener, sys::SHUT_RDWR);
    let (result, time) = at_once(|| meanwhile(|| accept(&listener), shut));
    notes.add("accept", result);
    notes.add("woken", time);
    Ok(())
}

/// It is the connection that is shut down, not the descriptor.
fn by_a_clone(notes: &mut Notes, ip: Ip) -> Outcome {
    let (client, server) = ip.pair()?;
    client.try_clone()?.shutdown(Shutdown::Write)?;
    notes.add("client writes", write(&client, b"a"));
    notes.add("server reads", read(&server));
    Ok(())
}
