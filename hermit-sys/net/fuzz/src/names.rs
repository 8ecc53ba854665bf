//! Fuzz target: the kernel's resolver, with texts of files, and a network that answers with the fuzzer's
//! bytes.

use std::net::IpAddr;
use std::task::Poll;

use hermit_net_stack::Errno;
use hermit_resolver::{
    Address, Configuration, Families, Resolution, StreamId, Transport, hosts, numeric, order,
};

/// Maximum number of polls of a lookup in a silent network: a few servers and names, and a few datagrams for
/// each.
const MAX_POLLS: usize = 2000;

/// Size of the header of a message in bytes.
const HEADER_LEN: usize = 12;

/// Bytes of the fuzzer, from the first to the last.
struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    /// Returns a part of the script. Its length precedes it.
    fn part(&mut self) -> &'a [u8] {
        let count = usize::from(self.byte().unwrap_or(0)).min(self.0.len());
        let (part, rest) = self.0.split_at(count);
        self.0 = rest;
        part
    }
}

/// A network that follows the script. After the end of the script it is silent.
struct Network<'a> {
    script: Script<'a>,
    now: u64,
    random: u16,
    /// Last query: responses answer it.
    query: Vec<u8>,
    received: Vec<u8>,
    connections: [bool; 2],
}

impl Network<'_> {
    /// Returns a message of a server: arbitrary bytes, or a response to the last query.
    fn message(&mut self) -> Vec<u8> {
        let kind = self.script.byte().unwrap_or(0);
        let part = self.script.part();
        if kind & 1 == 0 || self.query.len() < HEADER_LEN {
            return part.into();
        }
        let mut message = self.query.clone();
        // Without the OPT record, if there is one.
        let len = message.len() - if message[HEADER_LEN - 1] == 1 { 11 } else { 0 };
        message.truncate(len);
        let code = if kind & 2 == 0 { 0 } else { kind >> 4 };
        let truncated = if kind & 4 == 0 { 0 } else { 2 };
        message[2..HEADER_LEN].copy_from_slice(&[
            0x81 | truncated,
            0x80 | code,
            0,
            1,
            0,
            kind >> 3,
            0,
            0,
            0,
            0,
        ]);
        message.extend(part);
        message
    }
}

impl Transport for Network<'_> {
    fn random(&mut self) -> u16 {
        self.random = self.random.wrapping_add(1);
        self.random
    }

    fn send(&mut self, _server: usize, message: &[u8]) -> Result<(), Errno> {
        self.query = message.into();
        match self.script.byte() {
            Some(0) => Err(Errno::EAGAIN),
            Some(1) => Err(Errno::ENETUNREACH),
            _ => Ok(()),
        }
    }

    fn receive(&mut self, _server: usize) -> Result<&[u8], Errno> {
        match self.script.byte() {
            None | Some(0) => Err(Errno::EAGAIN),
            Some(1) => Err(Errno::ECONNREFUSED),
            Some(_) => {
                self.received = self.message();
                Ok(&self.received)
            }
        }
    }

    fn connect(&mut self, stream: StreamId, _server: usize) -> Result<(), Errno> {
        self.connections[stream] = true;
        if self.script.byte() == Some(1) { Err(Errno::ECONNREFUSED) } else { Ok(()) }
    }

    fn write(&mut self, _stream: StreamId, bytes: &[u8]) -> Result<usize, Errno> {
        match self.script.byte() {
            None | Some(0) => Err(Errno::EAGAIN),
            Some(1) => Err(Errno::EPIPE),
            Some(count) => Ok(bytes.len().min(count.into())),
        }
    }

    fn read(&mut self, _stream: StreamId) -> Result<&[u8], Errno> {
        match self.script.byte() {
            None | Some(0) => Err(Errno::EAGAIN),
            Some(1) => Err(Errno::ECONNRESET),
            Some(2) => {
                let message = self.message();
                let len = u16::try_from(message.len()).unwrap_or(u16::MAX).to_be_bytes();
                self.received = [&len, &message[..]].concat();
                Ok(&self.received)
            }
            Some(_) => Ok(self.script.part()),
        }
    }

    fn disconnect(&mut self, stream: StreamId) {
        assert!(self.connections[stream], "a connection is closed that was not opened");
        self.connections[stream] = false;
    }
}

/// Reads parts of the bytes as files, then resolves a name with the rest as the network.
///
/// # Panics
///
/// If a lookup does not end in time, leaves a connection open, or returns no address and no error.
pub fn names(data: &[u8]) {
    let mut script = Script(data);
    let mut configuration = Configuration::parse(script.part()).expect("memory");
    configuration.add_domains(script.part()).expect("memory");
    let mut found = Vec::new();
    let is_known = hosts::find(script.part(), b"a", Families::Both, &mut found).expect("memory");
    assert!(is_known || found.is_empty());
    found.extend(numeric::parse(script.part()));
    for server in [[10, 0, 0, 1], [10, 0, 0, 2]].map(IpAddr::from) {
        configuration.add_server(server.into()).expect("memory");
    }
    let (received, query) = (Vec::new(), Vec::new());
    let mut network = Network { script, now: 0, random: 0, query, received, connections: [false; 2] };
    found.extend(resolve(&configuration, &mut network));
    let count = found.len();
    order::sort(&mut found, |address| (address.scope % 2 == 0).then_some(address.ip)).expect("memory");
    assert_eq!(found.len(), count);
}

fn resolve(configuration: &Configuration, network: &mut Network<'_>) -> Vec<Address> {
    let Ok(mut resolution) = Resolution::new(configuration, b"a.b", Families::Both) else {
        return Vec::new();
    };
    for _ in 0..MAX_POLLS + network.script.0.len() {
        let now = network.now;
        if let Poll::Ready(result) = resolution.poll(network, now) {
            assert_eq!(network.connections, [false; 2], "a connection is left open");
            let found = result.unwrap_or_default();
            return found.into_iter().map(Address::from).collect();
        }
        let deadline = resolution.deadline();
        assert!(deadline > now && deadline != u64::MAX, "the lookup waits for nothing");
        // The network is ready again before the deadline.
        let step = if network.script.0.is_empty() { deadline - now } else { (deadline - now).div_ceil(2) };
        network.now += step;
    }
    panic!("the lookup does not end");
}
