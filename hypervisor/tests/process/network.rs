//! Network devices: a guest echoes datagrams through a tap and through sockets.
//!
//! The guest is a driver without a network stack ([`crate::echo`]). The tests send datagrams from the host,
//! and expect each of them to come back unchanged. Tests with a tap need root, and are skipped with a message
//! elsewhere.

mod qemu;

use std::fs;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::{FdFlags, fcntl_setfd};

use crate::echo::{CHECKSUMS, DONE, LAST, echo};
use crate::host::{Host, Outcome};
use crate::jail_checks;

/// MAC address of the guest.
const MAC: &str = "02:00:00:00:00:02";

/// Timeout of each wait.
const TIMEOUT: Duration = Duration::from_secs(150);

/// Sends datagrams, and waits for each to come back. The final one makes the guest exit.
fn exchange(socket: &UdpSocket, guest: SocketAddr) {
    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let mut datagrams: Vec<Vec<u8>> = [1, 9, 100, 1472].map(|length| vec![b'a'; length]).to_vec();
    datagrams.extend((0..200_u8).map(|number| vec![b'b', number]));
    datagrams.push(vec![LAST]);
    let begin = Instant::now();
    for datagram in datagrams {
        // Datagrams are lost until the network is up.
        while !comes_back(socket, guest, &datagram) {
            assert!(begin.elapsed() < TIMEOUT, "{} bytes do not come back", datagram.len());
        }
    }
}

fn comes_back(socket: &UdpSocket, guest: SocketAddr, datagram: &[u8]) -> bool {
    socket.send_to(datagram, guest).unwrap();
    let mut answer = [0; 2000];
    loop {
        match socket.recv_from(&mut answer) {
            Ok((length, from)) => {
                assert_eq!(from, guest);
                // It may also be a late copy of an earlier datagram.
                if answer[..length] == *datagram {
                    return true;
                }
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return false;
            }
            // SIGSTOP and SIGCONT interrupt a read with a timeout (signal(7)).
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // The port is not bound yet.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => return false,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Name and addresses of a tap, unique to a test.
struct Tap {
    name: String,
    host: Ipv4Addr,
    guest: Ipv4Addr,
}

impl Tap {
    /// Returns `None`, and prints the reason, if taps cannot be created here.
    fn new(number: u8) -> Option<Self> {
        let can = rustix::process::geteuid().is_root() && Path::new("/dev/net/tun").exists();
        if !can || ip("link show lo").is_err() {
            println!("skipped: it takes root, /dev/net/tun and ip(8)");
            return None;
        }
        let [a, b, ..] = process::id().to_le_bytes();
        let address = |last| Ipv4Addr::new(10, 192 | b & 0x3f, a, 4 * number + last);
        Some(Self { name: format!("uh{}-{number}", process::id()), host: address(1), guest: address(2) })
    }

    fn option(&self) -> String {
        format!("tap={},mac={MAC}", self.name)
    }

    fn folder(&self) -> PathBuf {
        Path::new("/sys/class/net").join(&self.name)
    }

    /// Configures the host's address and a neighbour entry for the guest.
    fn configure(&self) {
        let Self { name, host, guest } = self;
        wait(|| self.folder().exists());
        ip(&format!("addr add {host}/30 dev {name}")).unwrap();
        ip(&format!("neigh add {guest} lladdr {MAC} dev {name} nud permanent")).unwrap();
    }

    fn exchange(&self) {
        let socket = UdpSocket::bind((self.host, 0)).unwrap();
        exchange(&socket, (self.guest, 7).into());
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        // Fails if the tap was removed with its VM.
        let _: Result<(), String> = ip(&format!("link del {}", self.name));
    }
}

fn ip(arguments: &str) -> Result<(), String> {
    let output = Command::new("ip").args(arguments.split(' ')).output().map_err(|error| error.to_string())?;
    output.status.success().then_some(()).ok_or_else(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

#[track_caller]
fn wait(mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < TIMEOUT, "timeout");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Running uhyve, which is killed at the end of the test.
struct RunningUhyve(Option<Child>, #[expect(dead_code, reason = "the image's folder is to stay")] Host);

impl RunningUhyve {
    fn new(host: Host, options: &[&str]) -> Self {
        let child = host.command().args(options).spawn().unwrap();
        Self(Some(child), host)
    }

    fn has_ended(&mut self) -> bool {
        self.0.as_mut().unwrap().try_wait().unwrap().is_some()
    }

    fn outcome(mut self) -> Outcome {
        Outcome::from(self.0.take().unwrap().wait_with_output().unwrap())
    }

    #[track_caller]
    fn finish(self) {
        let outcome = self.outcome();
        assert_eq!((outcome.code, &*outcome.errors), (Some(DONE.into()), ""));
    }
}

impl Drop for RunningUhyve {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

#[test]
fn tap_carries_datagrams_both_ways() {
    for (number, features) in [(0, 0), (1, CHECKSUMS), (2, CHECKSUMS | 1 << 15)] {
        let Some(tap) = Tap::new(number) else { return };
        let machine = RunningUhyve::new(Host::new(&echo(features), &[]), &["--net", &tap.option()]);
        tap.configure();
        tap.exchange();
        machine.finish();
        // uhyve has created the tap, and removes it.
        assert!(!tap.folder().exists());
    }
}

#[test]
fn existing_tap_is_exclusive_and_persists() {
    let Some(tap) = Tap::new(3) else { return };
    ip(&format!("tuntap add {} mode tap", tap.name)).unwrap();
    ip(&format!("link set {} up mtu 1600", tap.name)).unwrap();
    tap.configure();
    let machine = RunningUhyve::new(Host::new(&echo(0), &[]), &["--net", &tap.option()]);
    wait(|| fs::read_to_string(tap.folder().join("carrier")).is_ok_and(|carrier| carrier.trim() == "1"));
    for (options, text) in [("", "in use by another program"), (",mtu=1601", "in use")] {
        let other = Host::new(&echo(0), &[]);
        let output = other.command().arg("--net").arg(format!("tap={}{options}", tap.name)).output().unwrap();
        let outcome = Outcome::from(output);
        assert!(outcome.errors.contains(text), "{outcome:?}");
    }
    tap.exchange();
    machine.finish();
    assert!(tap.folder().exists());
    let other = Host::new(&echo(0), &[]);
    let output = other.command().arg("--net").arg(format!("tap={},mtu=1601", tap.name)).output().unwrap();
    assert!(Outcome::from(output).errors.contains("mtu 1601"));
}

#[test]
fn multi_queue_tap_is_accepted() {
    let Some(tap) = Tap::new(5) else { return };
    ip(&format!("tuntap add {} mode tap multi_queue", tap.name)).unwrap();
    ip(&format!("link set {} up", tap.name)).unwrap();
    tap.configure();
    let machine = RunningUhyve::new(Host::new(&echo(0), &[]), &["--net", &tap.option()]);
    tap.exchange();
    machine.finish();
}

/// Returns a UDP port that is free at this time.
fn free_port() -> u16 {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// True if a socket is bound to a UDP port.
fn is_bound(port: u16) -> bool {
    let lists =
        ["udp", "udp6"].map(|list| fs::read_to_string(format!("/proc/self/net/{list}")).unwrap_or_default());
    lists.iter().any(|list| list.contains(&format!(":{port:04X} 0")))
}

/// Starts uhyve with a UDP port that it must bind. If another program has taken the free port meanwhile,
/// tries another port.
fn with_port(start: impl Fn(u16) -> RunningUhyve) -> (RunningUhyve, SocketAddr) {
    for _ in 0..10 {
        let port = free_port();
        let mut machine = start(port);
        wait(|| is_bound(port) || machine.has_ended());
        if !machine.has_ended() {
            return (machine, (Ipv4Addr::LOCALHOST, port).into());
        }
        let outcome = machine.outcome();
        assert!(outcome.errors.contains("in use"), "{outcome:?}");
    }
    panic!("no port stays free")
}

/// Starts uhyve with a forwarded port, and returns its address.
fn behind_port(options: &[&str]) -> (RunningUhyve, SocketAddr) {
    with_port(|port| {
        let forward = format!("{port}:7/udp");
        let options = [&["-p", &forward], options].concat();
        RunningUhyve::new(Host::new(&echo(0), &[]), &options)
    })
}

#[test]
fn sockets_carry_datagrams_both_ways() {
    let (machine, port) = behind_port(&[]);
    exchange(&UdpSocket::bind("127.0.0.1:0").unwrap(), port);
    machine.finish();
    assert!(!is_bound(port.port()));
}

#[test]
fn clients_of_a_passed_socket_are_forwarded() {
    let passed = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = passed.local_addr().unwrap();
    // uhyve inherits it.
    fcntl_setfd(&passed, FdFlags::empty()).unwrap();
    let option = format!("{}:7", passed.as_raw_fd());
    let machine = RunningUhyve::new(Host::new(&echo(0), &[]), &["--listen-fd", &option]);
    drop(passed);
    exchange(&UdpSocket::bind("127.0.0.1:0").unwrap(), port);
    machine.finish();
}

#[test]
fn jailed_guest_has_its_port() {
    if !jail_checks::is_possible() {
        return;
    }
    let (machine, port) = behind_port(&["--jail", jail_checks::IDS]);
    exchange(&UdpSocket::bind("127.0.0.1:0").unwrap(), port);
    machine.finish();
}

#[test]
fn jailed_guest_has_its_tap() {
    let Some(tap) = Tap::new(6).filter(|_| jail_checks::is_possible()) else { return };
    let options = ["--net", &tap.option(), "--jail", jail_checks::IDS];
    let machine = RunningUhyve::new(Host::new(&echo(CHECKSUMS), &[]), &options);
    tap.configure();
    tap.exchange();
    machine.finish();
    assert!(!tap.folder().exists());
}

#[test]
fn taken_port_is_reported() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let host = Host::new(&echo(0), &[]);
    let output = host.command().args(["-p", &format!("{port}:80")]).output().unwrap();
    let outcome = Outcome::from(output);
    assert_eq!(outcome.code, Some(125));
    assert!(outcome.errors.contains(&format!("port {port} of the host is in use")), "{outcome:?}");
}

#[test]
fn invalid_network_options_exit_with_usage_error() {
    for (options, text) in [
        (&["-p", "1:1", "--net", "none"][..], "remove --net none"),
        (&["-p", "1:1", "--net", "tap=tap0"], "-p goes with --net user"),
        (&["-p", "8080:80", "-p", "8080:81"], "8080 is given twice"),
        (&["--net", "user,mtu=65521"], "65520"),
        (&["--net", "passt"], "write --net user"),
        (&["--net", "tap=tap0,host-loopback"], "goes with user"),
        (&["--net", "user,allow=127.0.0.1"], "host-loopback"),
        (&["--net", "tap=tap0,allow=10.0.0.0/8"], "add egress=none"),
        (&["--mount", "a:b"], "HOST:/GUEST"),
    ] {
        let host = Host::new(&echo(0), &[]);
        let outcome = Outcome::from(host.command().args(options).output().unwrap());
        assert_eq!(outcome.code, Some(2), "{outcome:?}");
        assert!(outcome.errors.contains(text), "{outcome:?}");
    }
}

#[test]
fn mtu_that_the_tap_cannot_carry_is_refused() {
    let Some(tap) = Tap::new(4) else { return };
    ip(&format!("tuntap add {} mode tap", tap.name)).unwrap();
    for (tap_mtu, options, text) in [
        (575, "", "fewer than 576"),
        (1279, ",ip=fd00::2/64", "fewer than 1280"),
        (600, ",mtu=601", "mtu 601"),
    ] {
        ip(&format!("link set {} up mtu {tap_mtu}", tap.name)).unwrap();
        let host = Host::new(&echo(0), &["--timeout", "3"]);
        let output = host.command().arg("--net").arg(format!("tap={}{options}", tap.name)).output().unwrap();
        let outcome = Outcome::from(output);
        assert_eq!(outcome.code, Some(125), "{outcome:?}");
        assert!(outcome.errors.contains(text), "{outcome:?}");
    }
}
