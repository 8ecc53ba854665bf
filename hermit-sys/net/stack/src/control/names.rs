//! Questions to name servers.

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

use crate::resolve::{Addresses, ResolveError};
use crate::wire::packet::{Frame, Packet};

/// Most questions at a time.
const MAX_QUESTIONS: usize = 256;

/// The port of name servers.
pub(crate) const PORT: u16 = 53;

/// One question and what became of it.
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

/// Whether a server can be asked.
pub(super) fn is_usable(server: IpAddr) -> bool {
    !server.is_unspecified() && !server.is_multicast()
}

/// smoltcp's client of name servers.
pub(crate) struct Names {
    set: SocketSet<'static>,
    handle: SocketHandle,
    servers: Vec<IpAddr>,
    /// Why the last question failed, if a server said so.
    verdict: Option<ResolveError>,
    asked: usize,
}

/// What a server's answer means to a question that gets no address from it.
fn verdict(frame: &[u8]) -> Option<ResolveError> {
    let packet = Packet::parse(Frame::parse(frame)?.payload)?;
    let datagram = packet.udp(true)?;
    let answer = DnsPacket::new_checked(datagram.payload()).ok()?;
    Some(match answer.rcode() {
        // There is the name, but no address of the kind that was asked for.
        DnsRcode::NoError | DnsRcode::NXDomain => ResolveError::NoName,
        _ => ResolveError::Again,
    })
}

impl Names {
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
        self.servers =
            servers.iter().copied().filter(|&server| is_usable(server)).take(MAX_NAMESERVERS).collect();
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

    /// The set to which a frame from a name server is given.
    pub(crate) fn receive(&mut self, frame: &[u8]) -> &mut SocketSet<'static> {
        self.verdict = verdict(frame);
        &mut self.set
    }

    /// Asks for the addresses of a name.
    ///
    /// # Errors
    ///
    /// `EINVAL`: it cannot be a name. `ENOMEM`: too many questions are open.
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

    /// Looks what became of a question.
    pub(crate) fn look(&mut self, question: &mut Question) {
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

    /// Gives a question up.
    pub(crate) fn give_up(&mut self, question: &Question) {
        if let Question::Asked(handle) = question {
            let handle = *handle;
            self.asked = self.asked.saturating_sub(1);
            self.socket().cancel_query(handle);
        }
    }
}

/// A name without what is behind the last dot if that is nothing, and in lower case.
pub(crate) fn normalized(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}
