//! Lookups of names with `/etc/hosts`, `/etc/resolv.conf` and name servers, which run in this program at
//! addresses of the loopback.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs, UdpSocket};
use std::thread;

/// A server that has names below `corp.test`, and one that always fails. Nothing listens at the third
/// address.
const SERVER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 1);
const FAILING: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const ABSENT: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);

/// Port of name servers.
const PORT: u16 = 53;

/// Size of a message's header in bytes.
const HEADER_LEN: usize = 12;

/// Maximum size of a datagram in bytes, with EDNS0 and without.
const EDNS_LEN: usize = 1232;
const PLAIN_LEN: usize = 512;

const HOSTS: &str = "192.0.2.7 db db.test # the database\n192.0.2.8 db\n2001:db8::7 six\n";

pub(crate) fn names() {
    start_server(SERVER, answer).expect("a name server");
    start_server(FAILING, fail).expect("a failing name server");
    fs::create_dir_all("/etc").expect("a folder for files");
    fs::write("/etc/hosts", HOSTS).expect("/etc/hosts");
    ask_servers(&[ABSENT, FAILING, SERVER]);
    numeric_addresses();
    files();
    many_addresses();
    search_list();
    failures();
}

/// A machine with an initial tree: its `/etc/hosts` counts before the first use of a file and after it, and
/// so does a change.
pub(crate) fn initial_names() {
    let resolved = || resolve("early").expect("a name of the initial tree");
    assert_eq!(resolved(), ["192.0.2.9"]);
    let text = fs::read_to_string("/etc/hosts").expect("/etc/hosts");
    assert_eq!(resolved(), ["192.0.2.9"]);
    fs::write("/etc/hosts", text + "192.0.2.10 early\n").expect("/etc/hosts");
    assert_eq!(resolved(), ["192.0.2.9", "192.0.2.10"]);
}

/// Writes `/etc/resolv.conf` with these servers.
fn ask_servers(servers: &[Ipv4Addr]) {
    let lines: String = servers.iter().map(|server| format!("nameserver {server}\n")).collect();
    fs::write("/etc/resolv.conf", lines + "search other.test corp.test\n").expect("/etc/resolv.conf");
}

/// The addresses of a name in text, without their port.
fn resolve(name: &str) -> io::Result<Vec<String>> {
    Ok((name, 80).to_socket_addrs()?.map(|address| address.ip().to_string()).collect())
}

fn numeric_addresses() {
    for name in ["127.1", "0x7f000001", "2130706433", "017700000001"] {
        assert_eq!(resolve(name).expect("an address"), ["127.0.0.1"], "{name}");
    }
    let Some(SocketAddr::V6(scoped)) = ("fe80::1%1", 80).to_socket_addrs().expect("an address").next() else {
        panic!("no address of IPv6");
    };
    assert_eq!((scoped.ip().to_string(), scoped.scope_id(), scoped.port()), ("fe80::1".into(), 1, 80));
}

fn files() {
    assert_eq!(resolve("DB").expect("a name of a file"), ["192.0.2.7", "192.0.2.8"]);
    assert_eq!(resolve("six").expect("a name of a file"), ["2001:db8::7"]);
    assert_eq!(resolve("localhost").expect("the loopback"), ["::1", "127.0.0.1"]);
}

/// All addresses are found, in the server's order: also those that fit a datagram with EDNS0 only, or none.
fn many_addresses() {
    for count in [1, 16, 17, 30, 70, 100, 1000] {
        let found = resolve(&format!("n{count}.corp.test")).expect("addresses of a server");
        let expected: Vec<_> = (0..count).map(|index| address(index).to_string()).collect();
        assert_eq!(found, expected, "{count} addresses");
    }
}

fn search_list() {
    assert_eq!(resolve("n2").expect("a name of the second domain").len(), 2);
    assert!(resolve("n2.").is_err(), "a complete name is searched for");
}

fn failures() {
    let reason = |name| resolve(name).expect_err("a name without addresses").to_string();
    let check = |name, expected: &str| {
        let reason = reason(name);
        assert!(reason.contains(expected), "{name}: {reason}");
    };
    check("missing.corp.test.", "Name or service not known");
    check("n0.corp.test.", "No address associated with hostname");
    ask_servers(&[FAILING]);
    check("n1.corp.test", "Temporary failure in name resolution");
    ask_servers(&[ABSENT]);
    check("n1.corp.test", "Temporary failure in name resolution");
}

/// The address of this index.
fn address(index: u16) -> Ipv4Addr {
    let [high, low] = index.to_be_bytes();
    Ipv4Addr::new(10, 0, high, low)
}

/// Makes a response to a query, which is no longer than a number of bytes.
type Respond = fn(query: &[u8], limit: usize) -> Vec<u8>;

/// Starts a server with UDP and TCP, which runs until the program ends.
fn start_server(address: Ipv4Addr, respond: Respond) -> io::Result<()> {
    let socket = UdpSocket::bind((address, PORT))?;
    let listener = TcpListener::bind((address, PORT))?;
    thread::spawn(move || {
        let mut query = [0; PLAIN_LEN];
        while let Ok((len, from)) = socket.recv_from(&mut query) {
            let query = &query[..len];
            let limit = if query[HEADER_LEN - 1] == 1 { EDNS_LEN } else { PLAIN_LEN };
            socket.send_to(&respond(query, limit), from).expect("a response is not sent");
        }
    });
    thread::spawn(move || {
        for stream in listener.incoming() {
            serve(stream.expect("a connection"), respond).expect("a response is not sent");
        }
    });
    Ok(())
}

/// Answers a query of a connection.
fn serve(mut stream: TcpStream, respond: Respond) -> io::Result<()> {
    let mut len = [0; 2];
    stream.read_exact(&mut len)?;
    let mut query = vec![0; u16::from_be_bytes(len).into()];
    stream.read_exact(&mut query)?;
    let response = respond(&query, u16::MAX.into());
    let len = u16::try_from(response.len()).expect("the response is too long");
    stream.write_all(&[&len.to_be_bytes(), &response[..]].concat())
}

/// Labels of the question, and the offset of its type.
fn question(query: &[u8]) -> (Vec<String>, usize) {
    let (mut labels, mut offset) = (Vec::new(), HEADER_LEN);
    while query[offset] != 0 {
        let end = offset + 1 + usize::from(query[offset]);
        labels.push(String::from_utf8_lossy(&query[offset + 1..end]).into_owned());
        offset = end;
    }
    (labels, offset + 1)
}

/// A response without records, with a code.
fn header(query: &[u8], code: u8) -> Vec<u8> {
    let (_, kind) = question(query);
    let mut response = query[..kind + 4].to_vec();
    response[2..HEADER_LEN].copy_from_slice(&[0x81, 0x80 | code, 0, 1, 0, 0, 0, 0, 0, 0]);
    response
}

fn fail(query: &[u8], _limit: usize) -> Vec<u8> {
    header(query, 2)
}

/// Response with as many addresses as the name says, `n7.corp.test` for instance; other names do not exist.
fn answer(query: &[u8], limit: usize) -> Vec<u8> {
    let (labels, kind) = question(query);
    let count = match &labels[..] {
        [name, corp, test] if corp == "corp" && test == "test" => {
            name.strip_prefix('n').and_then(|n| n.parse().ok())
        }
        _ => None,
    };
    let Some(count) = count else { return header(query, 3) };
    let mut response = header(query, 0);
    // There are addresses of IPv4 only.
    let count: u16 = if query[kind + 1] == 1 { count } else { 0 };
    for index in 0..count {
        // The name of the question, type, class, time to live, length.
        response.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
        response.extend(address(index).octets());
    }
    response[6..8].copy_from_slice(&count.to_be_bytes());
    if response.len() > limit {
        response = header(query, 0);
        response[2] |= 2;
    }
    response
}
