//! Clients of forwarded ports. Each connection that a listener accepts becomes a flow, which sends a SYN to
//! the guest.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::{iter, mem};

use super::Tcp;
use super::flow::{Flow, Phase};
use crate::Guest;
use crate::config::Config;
use crate::host::{Host, Token, is_exhausted};
use crate::parse::Ends;

/// Maximum number, for each listener, of clients' flows that are not established.
const MAX_CLIENTS: usize = 128;

impl<S> Tcp<S> {
    /// Sends the unanswered SYNs again, now and a few more times soon after. Called when the guest has
    /// started or has got an address, so that it probably answers now.
    pub(crate) fn expect_answers(&mut self, now: u64) {
        if self.repeat_syns() {
            self.timers.repeat_syns_later(now);
        }
    }

    /// Sends the unanswered SYNs again. Their retransmission timers do not change. Returns false if there is
    /// no such SYN.
    pub(super) fn repeat_syns(&mut self) -> bool {
        let unanswered = self.flows.tokens(|flow| flow.phase == Phase::SynSent);
        for &token in &unanswered {
            if let Some(flow) = self.flows.get_mut(token) {
                flow.outgoing.is_due = true;
            }
            self.enqueue(token);
        }
        !unanswered.is_empty()
    }

    /// Records that a listener may have clients to accept.
    pub(crate) fn note_clients(&mut self, listener: usize) {
        if let Some(has_clients) = self.has_clients.get_mut(listener).filter(|has_clients| !**has_clients) {
            *has_clients = true;
            self.with_clients.push(listener);
        }
    }

    /// Accepts waiting clients of all listeners, up to [`MAX_CLIENTS`] unestablished flows for each. More
    /// clients wait in the listener's backlog. Returns true if the host had no descriptor for a client.
    pub(crate) fn accept<H: Host<Stream = S>>(
        &mut self,
        host: &mut H,
        config: &Config,
        guest: &Guest,
    ) -> bool {
        let mut has_no_descriptor = false;
        let mut listeners = mem::take(&mut self.with_clients);
        listeners.retain(|&listener| {
            let mut accept = || self.accept_one(host, config, guest, listener);
            let stopped = iter::from_fn(|| Some(accept())).find_map(Result::err);
            has_no_descriptor |= stopped.is_some_and(|error| is_exhausted(&error));
            self.has_clients.get(listener) == Some(&true)
        });
        self.with_clients = listeners;
        has_no_descriptor
    }

    /// Accepts one client of a listener. Returns the reason if no further client can be accepted.
    fn accept_one<H: Host<Stream = S>>(
        &mut self,
        host: &mut H,
        config: &Config,
        guest: &Guest,
        listener: usize,
    ) -> io::Result<()> {
        let is_full = self.clients.get(listener).is_none_or(|clients| *clients >= MAX_CLIENTS);
        let has_clients = self.has_clients.get_mut(listener).filter(|has_clients| **has_clients && !is_full);
        let (Some(has_clients), Some(token)) = (has_clients, self.flows.next()) else {
            return Err(ErrorKind::WouldBlock.into());
        };
        let (stream, from) = match host.accept(listener, token) {
            Ok(client) => client,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                *has_clients = false;
                return Err(error);
            }
            // The client waits until a flow ends.
            Err(error) if is_exhausted(&error) => return Err(error),
            // The error concerns only this client.
            Err(_) => return Ok(()),
        };
        let port = config.tcp_ports.get(listener).copied().unwrap_or_default();
        let address = SocketAddr::new(guest.address_for(from.ip()), port);
        let Some(ends) = self.free_ends(config, address, from) else {
            host.reset(stream);
            return Ok(());
        };
        let iss = self.iss(&ends, host.now());
        self.flows.insert(Flow::from_client(stream, ends, listener, iss)).ok_or(ErrorKind::WouldBlock)?;
        self.by_ends.insert(ends, token);
        if let Some(clients) = self.clients.get_mut(listener) {
            *clients += 1;
        }
        self.enqueue(token);
        Ok(())
    }

    /// Returns ends for the flow between the guest and a client that no other flow has. The peer's address
    /// and port are the client's if the guest can see them, otherwise an address and a port of the gateway.
    fn free_ends(&self, config: &Config, guest: SocketAddr, from: SocketAddr) -> Option<Ends> {
        let mut peer = config.inside(from, guest.ip());
        for _ in 0..=u16::MAX {
            let ends = Ends { guest, peer };
            if peer.port() != 0 && !self.by_ends.contains_key(&ends) {
                return Some(ends);
            }
            peer = SocketAddr::new(config.gateway(guest.ip()), peer.port().wrapping_add(1));
        }
        None
    }

    /// If the guest has refused a client's connection over IPv6, offers it again over IPv4, because many
    /// servers listen only there. Returns true if it does so.
    pub(super) fn try_ipv4(&mut self, config: &Config, guest: &Guest, token: Token) -> bool {
        let Some(flow) = self.flows.get(token) else { return false };
        if flow.phase != Phase::SynSent || flow.ends.guest.is_ipv4() {
            return false;
        }
        let (ends, guest) = (flow.ends, SocketAddr::new(guest.v4.into(), flow.ends.guest.port()));
        let Some(other) = self.free_ends(config, guest, ends.peer) else { return false };
        self.by_ends.remove(&ends);
        self.by_ends.insert(other, token);
        if let Some(flow) = self.flows.get_mut(token) {
            flow.ends = other;
            (flow.outgoing.is_due, flow.outgoing.attempts) = (true, 0);
            // The timer of the previous SYN may be about to expire.
            flow.outgoing.retransmit_at = None;
        }
        self.enqueue(token);
        true
    }
}
