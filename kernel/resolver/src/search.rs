//! A lookup: completes a name with the domains of the search list, and asks the servers for one complete name
//! after the other.

use alloc::vec::Vec;
use core::net::IpAddr;
use core::task::Poll;

use crate::exchange::{Exchange, Failure, Transport};
use crate::{Configuration, Families, LookupError, Name};

/// A lookup of a name by name servers.
#[derive(Debug)]
pub struct Resolution<'a> {
    configuration: &'a Configuration,
    name: Name,
    families: Families,
    /// Domains that complete the name; empty for a name that ends with a dot.
    domains: &'a [Name],
    /// True if the unchanged name is tried before the names with appended domains, and false if it is tried
    /// after them.
    is_complete_first: bool,
    /// Number of complete names that have been asked for.
    tried: usize,
    exchange: Option<Exchange>,
    /// The most important failure of the names that were already tried.
    failure: LookupError,
}

impl<'a> Resolution<'a> {
    /// Creates a lookup of a name in text, which may end with a dot.
    ///
    /// # Errors
    ///
    /// [`LookupError::NoName`] if the text is no name, [`LookupError::Again`] without servers.
    pub fn new(
        configuration: &'a Configuration,
        text: &[u8],
        families: Families,
    ) -> Result<Self, LookupError> {
        let name = Name::from_text(text).ok_or(LookupError::NoName)?;
        if configuration.servers.is_empty() {
            return Err(LookupError::Again);
        }
        let dots = text.iter().filter(|&&byte| byte == b'.').count();
        let is_complete = text.ends_with(b".");
        Ok(Self {
            configuration,
            name,
            families,
            domains: if is_complete { &[] } else { &configuration.search },
            is_complete_first: is_complete || dots >= configuration.ndots as usize,
            tried: 0,
            exchange: None,
            failure: LookupError::NoName,
        })
    }

    /// Returns the next complete name. Names that are too long are left out.
    fn next_name(&mut self) -> Option<Name> {
        while self.tried <= self.domains.len() {
            let index = self.tried;
            self.tried += 1;
            let domain = if self.is_complete_first { index.checked_sub(1) } else { Some(index) };
            let name = match domain.and_then(|index| self.domains.get(index)) {
                Some(domain) => self.name.below(domain),
                None => Some(self.name),
            };
            if name.is_some() {
                return name;
            }
        }
        None
    }

    fn next_exchange(&mut self, transport: &mut dyn Transport, now: u64) -> Option<Exchange> {
        let name = self.next_name()?;
        Some(Exchange::new(&name, self.families, self.configuration, transport, now))
    }

    /// Returns the time in nanoseconds at which the lookup must be polled even if no socket is ready.
    #[must_use]
    pub fn deadline(&self) -> u64 {
        self.exchange.as_ref().map_or(0, Exchange::deadline)
    }

    /// Receives answers, and sends due queries; `now` is the time in nanoseconds. Ready with at least one
    /// address, or with the reason why there is none. Must not be polled after that.
    ///
    /// # Errors
    ///
    /// Those of [`LookupError`].
    pub fn poll(
        &mut self,
        transport: &mut dyn Transport,
        now: u64,
    ) -> Poll<Result<Vec<IpAddr>, LookupError>> {
        loop {
            let current = self.exchange.take().or_else(|| self.next_exchange(transport, now));
            let Some(mut exchange) = current else { return Poll::Ready(Err(self.failure)) };
            let Poll::Ready(result) = exchange.poll(self.configuration, transport, now) else {
                self.exchange = Some(exchange);
                return Poll::Pending;
            };
            match result {
                Ok(addresses) => return Poll::Ready(Ok(addresses)),
                Err(Failure::Memory) => return Poll::Ready(Err(LookupError::Memory)),
                // The same servers would not answer for the next name, either.
                Err(Failure::TimedOut) => return Poll::Ready(Err(LookupError::Again)),
                Err(Failure::Failed) => self.failure = LookupError::Again,
                Err(Failure::NoData) if self.failure == LookupError::NoName => {
                    self.failure = LookupError::NoData;
                }
                Err(Failure::NoData | Failure::NoName) => {}
            }
        }
    }
}
