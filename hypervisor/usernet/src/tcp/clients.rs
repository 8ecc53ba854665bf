//! Clients of listeners: their connections become flows, whose SYNs the guest answers.

use std::io::ErrorKind;
use std::mem;
use std::net::SocketAddr;

use super::Tcp;
use super::flow::{Flow, Phase};
use crate::Guest;
use crate::config::Config;
use crate::host::{Host, Token, is_exhausted};
use crate::parse::Ends;

/// Maximum number of flows of the clients of a listener that are not established.
const MAX_CLIENTS: usize = 128;

impl<S> Tcp<S> {
    /// Sends the SYNs again that the guest has not answered, now and some times a moment later: the guest has
    /// got an address, or has started.
    pub(crate) fn expect_answers(&mut self, now: u64) {
        if self.repeat_syns() {
            self.timers.repeat_syns_later(now);
        }
    }

    /// Sends the SYNs again that the guest has not answered. Their timers go on. Returns false if there are
    /// none.
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

    /// Notes that a listener has clients.
    pub(crate) fn note_clients(&mut self, listener: usize) {
        if let Some(has_clients) = self.has_clients.get_mut(listener).filter(|has_clients| !**has_clients) {
            *has_clients = true;
            self.with_clients.push(listener);
        }
    }

    /// Accepts clients while the guest has answered most of the former ones: the others wait in the
    /// backlog of the listener. Returns true if the host has no descriptor for a client.
    pub(crate) fn accept<H: Host<Stream = S>>(
        &mut self,
        host: &mut H,
        config: &Config,
        guest: &Guest,
    ) -> bool {
        self.is_exhausted = false;
        let mut listeners = mem::take(&mut self.with_clients);
        listeners.retain(|&listener| {
            while self.accept_one(host, config, guest, listener).is_some() {}
            self.has_clients.get(listener) == Some(&true)
        });
        self.with_clients = listeners;
        self.is_exhausted
    }

    /// Accepts a client, if there is one and the host can.
    fn accept_one<H: Host<Stream = S>>(
        &mut self,
        host: &mut H,
        config: &Config,
        guest: &Guest,
        listener: usize,
    ) -> Option<()> {
        if self.has_clients.get(listener) != Some(&true) || *self.clients.get(listener)? >= MAX_CLIENTS {
            return None;
        }
        let token = self.flows.next()?;
        let (stream, from) = match host.accept(listener, token) {
            Ok(client) => client,
            Err(error) => {
                // Without descriptors, the client waits until a flow ends. Other errors are those of one
                // client.
                let is_empty = error.kind() == ErrorKind::WouldBlock;
                *self.has_clients.get_mut(listener)? = !is_empty;
                self.is_exhausted |= is_exhausted(&error);
                return (!is_empty && !is_exhausted(&error)).then_some(());
            }
        };
        let port = config.tcp_ports.get(listener).copied().unwrap_or_default();
        let address = SocketAddr::new(guest.address_for(from.ip()), port);
        let Some(ends) = self.free_ends(config, address, from) else {
            host.reset(stream);
            return Some(());
        };
        let iss = self.iss(&ends, host.now());
        self.flows.insert(Flow::from_client(stream, ends, listener, iss))?;
        self.by_ends.insert(ends, token);
        *self.clients.get_mut(listener)? += 1;
        self.enqueue(token);
        Some(())
    }

    /// Ends of a flow between the guest and a client, which no other flow has: the client's address and port
    /// as far as the guest can see them.
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

    /// Offers a client whose connection the guest has refused over IPv6 over IPv4: many servers listen there
    /// only.
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
            // The timer of the former SYN may have expired just now.
            flow.outgoing.retransmit_at = None;
        }
        self.enqueue(token);
        true
    }
}
