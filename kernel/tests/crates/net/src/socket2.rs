//! Sockets with their options.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

pub fn run() -> crate_uses::Result {
    let listener = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    listener.set_reuse_address(true)?;
    listener.bind(&"127.0.0.1:0".parse::<SocketAddr>()?.into())?;
    listener.listen(8)?;
    let address = listener.local_addr()?.as_socket().ok_or("no address")?;
    let server = thread::spawn(move || -> std::io::Result<String> {
        let (mut stream, _) = listener.accept()?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    });
    let client = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    client.set_tcp_nodelay(true)?;
    client.set_read_timeout(Some(Duration::from_secs(60)))?;
    println!("{} {:?} {:?}", client.tcp_nodelay()?, client.read_timeout()?, client.r#type()? == Type::STREAM);
    client.connect_timeout(&SockAddr::from(address), Duration::from_secs(60))?;
    println!("{} {:?}", client.peer_addr()?.as_socket() == Some(address), client.take_error()?);
    let mut stream: TcpStream = client.into();
    stream.write_all(b"through a stream of std")?;
    drop(stream);
    println!("{}", server.join().map_err(|_| "panic")??);
    let udp = Socket::new(Domain::IPV6, Type::DGRAM, Some(Protocol::UDP))?;
    udp.set_only_v6(true)?;
    udp.bind(&"[::1]:0".parse::<SocketAddr>()?.into())?;
    println!("{} {}", udp.only_v6()?, udp.local_addr()?.is_ipv6());
    let udp: UdpSocket = udp.into();
    udp.send_to(b"datagram", udp.local_addr()?)?;
    let mut buffer = [0; 32];
    let (length, _) = udp.recv_from(&mut buffer)?;
    println!("{:?}", str::from_utf8(&buffer[..length])?);
    Ok(())
}
