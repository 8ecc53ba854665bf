//! DNS queries.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;

use hermit_interface::Errno;
use hermit_interface::net::MAX_NAMESERVERS;
use smoltcp::iface::{Interface, SocketHandle, SocketSet, SocketStorage};
use smoltcp::socket::dns::{GetQueryResultError, QueryHandle, Socket, StartQueryError};
use smoltcp::wire::{DnsPacket, DnsQueryType, DnsRcode, IpAddress};

use crate::dns::answer::{Addresses, ResolveError};
use crate::ip::sources::is_server_address;
use crate::wire::packet::{Frame, Packet};

/// Maximum number of concurrent questions.
const MAX_QUESTIONS: usize = 256;

/// Port of DNS servers.
pub(crate) const PORT: u16 = 53;

/// A question and its state.
pub(crate) enum Question {
    Asked(QueryHandle),
    Answered(Addresses),
    Failed(ResolveError),
}

impl fmt::Debug for Question {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asked(_) => out.write_str("Asked"),
            Self::Answered(addresses) => out.debug_tuple("Answered").field(addresses).finish(),
            Self::Failed(error) => out.debug_tuple("Failed").field(error).finish(),
        }
    }
}

/// smoltcp's DNS client.
pub(crate) struct Client {
    set: SocketSet<'static>,
    handle: SocketHandle,
    servers: Vec<IpAddr>,
    /// Error of the last response, if it was one.
    verdict: Option<ResolveError>,
    asked: usize,
}

/// Error for a question that gets no address from this response.
fn verdict(frame: &[u8]) -> Option<ResolveError> {
    let packet = Packet::parse(Frame::parse(frame)?.payload)?;
    let datagram = packet.udp(true)?;
    let answer = DnsPacket::new_checked(datagram.payload()).ok()?;
    Some(match answer.rcode() {
        // `NoError`: the name exists, but has no address of the family.
        DnsRcode::NoError | DnsRcode::NXDomain => ResolveError::NoName,
        _ => ResolveError::Again,
    })
}

impl fmt::Debug for Client {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Client").field("servers", &self.servers).finish_non_exhaustive()
    }
}

impl Client {
    pub(crate) fn new(servers: &[IpAddr]) -> Self {
        let mut set = SocketSet::new(vec![SocketStorage::EMPTY]);
        let handle = set.add(Socket::new(&[], Vec::new()));
        let mut names = Self { set, handle, servers: Vec::new(), verdict: None, asked: 0 };
        names.set_servers(servers);
        names
    }

    pub(crate) fn servers(&self) -> &[IpAddr] {
        &self.servers
    }

    pub(crate) fn set_servers(&mut self, servers: &[IpAddr]) {
        self.servers = servers
            .iter()
            .copied()
            .filter(|&server| is_server_address(server))
            .take(MAX_NAMESERVERS)
            .collect();
        let servers: Vec<IpAddress> = self.servers.iter().map(|&server| server.into()).collect();
        self.socket().update_servers(&servers);
    }

    fn socket(&mut self) -> &mut Socket<'static> {
        self.set.get_mut(self.handle)
    }

    pub(crate) fn set(&mut self) -> &mut SocketSet<'static> {
        self.verdict = None;
        &mut self.set
    }

    /// The socket set that receives a frame from a DNS server.
    pub(crate) fn receive(&mut self, frame: &[u8]) -> &mut SocketSet<'static> {
        self.verdict = verdict(frame);
        &mut self.set
    }

    /// Starts a question for the addresses of a name.
    ///
    /// # Errors
    ///
    /// `EINVAL`: not a valid name. `ENOMEM`: too many questions are pending.
    pub(crate) fn ask(
        &mut self,
        interface: &mut Interface,
        name: &str,
        is_v4: bool,
    ) -> Result<Question, Errno> {
        if self.servers.is_empty() {
            return Ok(Question::Failed(ResolveError::NoServer));
        }
        if self.asked >= MAX_QUESTIONS {
            return Err(Errno::ENOMEM);
        }
        let kind = if is_v4 { DnsQueryType::A } else { DnsQueryType::Aaaa };
        let asked = self.socket().start_query(interface.context(), name, kind);
        let handle = asked.map_err(|error| match error {
            StartQueryError::InvalidName | StartQueryError::NameTooLong => Errno::EINVAL,
            StartQueryError::NoFreeSlot => Errno::ENOMEM,
        })?;
        self.asked += 1;
        Ok(Question::Asked(handle))
    }

    /// Updates the state of a question.
    pub(crate) fn update(&mut self, question: &mut Question) {
        let Question::Asked(handle) = question else { return };
        let handle = *handle;
        let news = match self.socket().get_query_result(handle) {
            Ok(addresses) => Question::Answered(addresses.into_iter().map(Into::into).collect()),
            Err(GetQueryResultError::Pending) => return,
            Err(GetQueryResultError::Failed) => Question::Failed(self.verdict.unwrap_or(ResolveError::Again)),
        };
        self.asked = self.asked.saturating_sub(1);
        *question = news;
    }

    /// Cancels a question.
    pub(crate) fn give_up(&mut self, question: &Question) {
        if let Question::Asked(handle) = question {
            let handle = *handle;
            self.asked = self.asked.saturating_sub(1);
            self.socket().cancel_query(handle);
        }
    }
}

/// A name in lower case, without a trailing dot.
pub(crate) fn normalized(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}
