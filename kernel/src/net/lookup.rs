//! Lookups of host names: in `/etc/hosts`, among the names that the machine itself knows, and by asking name
//! servers (`/etc/resolv.conf`).
//!
//! A lookup tries these steps in order: a numeric address is its own answer; then `/etc/hosts`; then names
//! that need no server, such as `localhost`; then the name servers. The DNS protocol is in `hermit_resolver`,
//! a state machine without I/O. This module gives it sockets of the stack ([`Connected`]), the clock and
//! random numbers, and blocks the calling thread between its steps. The files are read by a function that the
//! caller passes, because a program may have no file system.

use alloc::vec::Vec;
use core::mem::MaybeUninit;
use core::net::IpAddr;
use core::task::Poll;

use hermit_hal::clock;
use hermit_interface::Errno;
use hermit_interface::net::{DATAGRAM, Endpoint, MAX_ADDRESSES, MAX_NAMESERVERS, STREAM, V4, V6};
use hermit_resolver::message::MAX_DATAGRAM_LEN;
use hermit_resolver::{
    Address, Configuration, Families, LookupError, Name, Resolution, StreamId, Transport, hosts, local,
    numeric, order,
};

use super::stack::{Network, Stack};
use super::waiting::wait_until;
use super::waker_keys::WakerKey;
use super::{act, configured, network};
use crate::entropy;

/// Port of DNS servers.
const PORT: u16 = 53;

/// Reason why a lookup has no addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Failure {
    /// The name has no addresses.
    Lookup(LookupError),
    /// The network cannot be used.
    System(Errno),
}

impl From<LookupError> for Failure {
    fn from(error: LookupError) -> Self {
        Self::Lookup(error)
    }
}

impl From<Errno> for Failure {
    fn from(error: Errno) -> Self {
        if error == Errno::ENOMEM { Self::Lookup(LookupError::Memory) } else { Self::System(error) }
    }
}

/// Returns the addresses of a name, at least one, the best address first. `file` returns the text of a file;
/// the text is empty if the file cannot be read.
pub(crate) fn resolve(
    name: &[u8],
    families: Families,
    file: impl Fn(&[u8]) -> Result<Vec<u8>, Errno>,
) -> Result<Vec<Address>, Failure> {
    let mut found = Vec::new();
    if let Some(address) = numeric::parse(name) {
        let is_wanted = families.contains(&address.ip);
        add(&mut found, is_wanted.then_some(address))?;
        return if is_wanted { Ok(found) } else { Err(LookupError::NoName.into()) };
    }
    // The syntax is checked first: neither a file nor a DHCP lease can give addresses to an invalid name.
    Name::from_text(name).ok_or(LookupError::NoName)?;
    if !hosts::find(&file(b"/etc/hosts")?, name, families, &mut found)? {
        let addresses: Vec<IpAddr> = match known_addresses(name)? {
            Some(addresses) => addresses,
            None => ask_servers(name, families, &file(b"/etc/resolv.conf")?)?,
        };
        let wanted = addresses.into_iter().filter(|address| families.contains(address));
        add(&mut found, wanted.map(Address::from))?;
    }
    match found.len() {
        0 => return Err(LookupError::NoData.into()),
        1 => {}
        _ => sort(&mut found)?,
    }
    Ok(found)
}

fn add<T>(list: &mut Vec<T>, elements: impl IntoIterator<Item = T>) -> Result<(), LookupError> {
    elements.into_iter().try_for_each(|element| {
        list.try_reserve(1)?;
        list.push(element);
        Ok(())
    })
}

fn to_address(endpoint: &Endpoint) -> IpAddr {
    if endpoint.family == V4 { endpoint.v4().into() } else { endpoint.v6().into() }
}

/// Returns the addresses of a name that needs no server, or `None` if the name needs a server.
fn known_addresses(name: &[u8]) -> Result<Option<Vec<IpAddr>>, Failure> {
    let mut found = Vec::new();
    if let Some(addresses) = local::find(name) {
        add(&mut found, addresses)?;
        return Ok(Some(found));
    }
    let network = network()?;
    let mut addresses = [Endpoint::default(); MAX_ADDRESSES + 2];
    let mut ask = || act(network, |stack| stack.known_addresses(name, &mut addresses));
    // This is read before `ask`, because the address may arrive between the two.
    let lacks_address = configured::is_awaited();
    let count = match ask() {
        Err(Errno::ENOENT) => return Ok(None),
        // The name of the gateway has an address only after the DHCP lease, so wait for the lease and ask
        // again.
        Ok(0) if lacks_address => {
            configured::wait_for_others(network);
            ask()?
        }
        known => known?,
    };
    if count == 0 {
        return Err(LookupError::NoName.into());
    }
    add(&mut found, addresses.iter().take(count).map(to_address))?;
    Ok(Some(found))
}

/// Sorts addresses. To do so, asks the stack which source address it would choose for a datagram to each
/// address.
fn sort(addresses: &mut [Address]) -> Result<(), Failure> {
    let network = network()?;
    configured::wait_for_others(network);
    let waker_key = WakerKey::new()?;
    // Connecting a datagram socket chooses its source address, but sends nothing.
    let sorted = act(network, |stack| {
        let sockets = [V4, V6].map(|family| stack.socket(family.into(), DATAGRAM, waker_key.number()));
        let sorted = order::sort(addresses, |address| {
            let socket = sockets[usize::from(address.ip.is_ipv6())].ok()?;
            stack.connect(socket, &endpoint(address)).ok()?;
            stack.local(socket).ok().map(|local| to_address(&local))
        });
        sockets.into_iter().flatten().for_each(|socket| stack.close(socket, false));
        sorted
    });
    Ok(sorted?)
}

/// Returns port 53 of an address.
fn endpoint(address: &Address) -> Endpoint {
    Endpoint { port: PORT, scope: address.scope, ..Endpoint::from(address.ip) }
}

/// Asks the name servers in the text of `/etc/resolv.conf`. If the text has none, asks the name servers that
/// the network has named.
fn ask_servers(name: &[u8], families: Families, text: &[u8]) -> Result<Vec<IpAddr>, Failure> {
    let network = network()?;
    // Name servers and a route to them come with the machine's address.
    configured::wait_for_others(network);
    let mut configuration = Configuration::parse(text)?;
    complete(&mut configuration, network)?;
    let waker_key = WakerKey::new()?;
    let mut sockets = Sockets::new(network, &configuration.servers, waker_key.number());
    let mut resolution = Resolution::new(&configuration, name, families)?;
    loop {
        let deadline = resolution.deadline();
        let waited = wait_until(network, waker_key.waiters(), Some(deadline), |stack| {
            match resolution.poll(&mut Connected { stack, sockets: &mut sockets }, clock::monotonic()) {
                Poll::Ready(result) => Ok(Some(result)),
                // The deadline has become earlier, so this wait would end too late. The loop waits again with
                // the new deadline.
                Poll::Pending if resolution.deadline() < deadline => Ok(None),
                Poll::Pending => Err(Errno::EAGAIN),
            }
        });
        match waited {
            Ok(Some(result)) => return Ok(result?),
            Ok(None) | Err(Errno::EAGAIN) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Adds the network's name servers if the file has none, and likewise the network's search list.
fn complete(configuration: &mut Configuration, network: &Network) -> Result<(), LookupError> {
    let network_says = act(network, Stack::name_config);
    if configuration.servers.is_empty() {
        let servers = network_says.servers.iter().filter(|server| server.family != 0);
        servers.map(to_address).try_for_each(|server| configuration.add_server(server.into()))?;
    }
    if configuration.search.is_empty() {
        configuration.add_domains(network_says.search.get(..network_says.search_len).unwrap_or_default())?;
    }
    if configuration.rotates {
        configuration.first = random().into();
    }
    Ok(())
}

/// Returns a random number. The generator does not fail, since the network does not start without one.
fn random() -> u16 {
    let mut bytes = [0; 2];
    let _: Result<(), Errno> = entropy::fill(&mut bytes);
    u16::from_ne_bytes(bytes)
}

/// The sockets of a lookup. Dropping this closes them.
#[derive(Debug)]
struct Sockets<'a> {
    network: &'static Network,
    servers: &'a [Address],
    waker_key: usize,
    /// A socket for each server that has been asked.
    datagrams: [Option<u64>; MAX_NAMESERVERS],
    streams: [Option<u64>; 2],
    received: [MaybeUninit<u8>; MAX_DATAGRAM_LEN as usize],
}

impl<'a> Sockets<'a> {
    fn new(network: &'static Network, servers: &'a [Address], waker_key: usize) -> Self {
        let received = [MaybeUninit::uninit(); MAX_DATAGRAM_LEN as usize];
        Self { network, servers, waker_key, datagrams: [None; MAX_NAMESERVERS], streams: [None; 2], received }
    }
}

impl Drop for Sockets<'_> {
    fn drop(&mut self) {
        let sockets = self.datagrams.into_iter().chain(self.streams).flatten();
        act(self.network, |stack| sockets.for_each(|socket| stack.close(socket, false)));
    }
}

/// The sockets of a lookup, together with the locked stack.
struct Connected<'a, 'b> {
    stack: &'a mut Stack,
    sockets: &'a mut Sockets<'b>,
}

impl Connected<'_, '_> {
    /// Opens a socket of a type, and connects it to a server. Returns the socket even if it cannot be
    /// connected.
    fn open(&mut self, kind: u32, server: usize) -> Result<(u64, Result<(), Errno>), Errno> {
        let server = self.sockets.servers.get(server).ok_or(Errno::EINVAL)?;
        let endpoint = endpoint(server);
        let socket = self.stack.socket(endpoint.family.into(), kind, self.sockets.waker_key)?;
        Ok((socket, self.stack.connect(socket, &endpoint)))
    }

    fn stream(&self, stream: StreamId) -> Result<u64, Errno> {
        self.sockets.streams.get(stream).copied().flatten().ok_or(Errno::ENOTCONN)
    }

    fn read_from(&mut self, socket: u64) -> Result<&[u8], Errno> {
        self.stack.receive(socket, &mut self.sockets.received, 0, None).map(|received| &*received)
    }
}

impl Transport for Connected<'_, '_> {
    fn random(&mut self) -> u16 {
        random()
    }

    fn send(&mut self, server: usize, message: &[u8]) -> Result<(), Errno> {
        let socket = match self.sockets.datagrams.get(server).copied().flatten() {
            Some(socket) => socket,
            None => {
                let (socket, connected) = self.open(DATAGRAM, server)?;
                if let Some(slot) = self.sockets.datagrams.get_mut(server) {
                    *slot = Some(socket);
                }
                connected?;
                socket
            }
        };
        self.stack.send(socket, message, None).map(drop)
    }

    fn receive(&mut self, server: usize) -> Result<&[u8], Errno> {
        let socket = self.sockets.datagrams.get(server).copied().flatten().ok_or(Errno::EAGAIN)?;
        self.read_from(socket)
    }

    fn connect(&mut self, stream: StreamId, server: usize) -> Result<(), Errno> {
        let (socket, connected) = self.open(STREAM, server)?;
        if let Some(slot) = self.sockets.streams.get_mut(stream) {
            *slot = Some(socket);
        }
        match connected {
            Err(Errno::EINPROGRESS) => Ok(()),
            connected => connected,
        }
    }

    fn write(&mut self, stream: StreamId, bytes: &[u8]) -> Result<usize, Errno> {
        self.stack.send(self.stream(stream)?, bytes, None)
    }

    fn read(&mut self, stream: StreamId) -> Result<&[u8], Errno> {
        self.read_from(self.stream(stream)?)
    }

    fn disconnect(&mut self, stream: StreamId) {
        if let Some(socket) = self.sockets.streams.get_mut(stream).and_then(Option::take) {
            self.stack.close(socket, false);
        }
    }
}
