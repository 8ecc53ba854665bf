//! Numbers that no other host can predict: initial sequence numbers (RFC 6528), timestamp clocks (RFC 7323
//! §5.4) and SYN cookies (RFC 4987 §3.6).

use hermit_tcp::Seq;

use crate::host::Random;
use crate::sip_hash::{low, sip_hash, words};
use crate::socket::address::Tuple;

/// Tick in nanoseconds of the clock that advances initial sequence numbers (RFC 9293 §3.4.1).
const ISN_TICK: u64 = 4000;

/// Purpose of a number: numbers of different purposes are independent of each other.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    SequenceNumber = 1,
    TimestampClock,
    Cookie,
    CookieMss,
}

/// The secret key of a stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Secret([u64; 2]);

impl Secret {
    pub(crate) fn new(random: &mut dyn Random) -> Self {
        Self([random.random(), random.random()])
    }

    /// Initial sequence number of a connection. It advances with time, so that it is above the numbers of an
    /// earlier connection with the same ports. It reveals nothing about other connections.
    pub(crate) fn sequence_number(&self, tuple: &Tuple, now: u64) -> Seq {
        Seq(low(now / ISN_TICK)) + self.number(Purpose::SequenceNumber, tuple, 0)
    }

    /// Value at time 0 of the timestamp clock, which all connections between two hosts share. A peer in
    /// TIME-WAIT recognizes a later connection by its timestamp (RFC 6191 §2).
    pub(crate) fn clock_offset(&self, tuple: &Tuple) -> u32 {
        let mut hosts = *tuple;
        (hosts.local.port, hosts.remote.port) = (0, 0);
        self.number(Purpose::TimestampClock, &hosts, 0)
    }

    /// Returns the number for a connection and `extra`.
    pub(crate) fn number(&self, purpose: Purpose, tuple: &Tuple, extra: u32) -> u32 {
        let [local, remote] = [tuple.local, tuple.remote].map(|end| words(end.address));
        let ports = u64::from(tuple.local.port) << 16 | u64::from(tuple.remote.port);
        let rest = [ports << 32 | u64::from(extra), purpose as u64];
        low(sip_hash(self.0, local.into_iter().chain(remote).chain(rest)))
    }
}

#[cfg(test)]
mod tests {
    use super::{ISN_TICK, Secret};
    use crate::socket::address::{Endpoint, Tuple};
    use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    const V4: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));

    fn tuple(local: IpAddr, port: u16) -> Tuple {
        Tuple { local: Endpoint::new(local, 80), remote: Endpoint::new(V4, port) }
    }

    #[test]
    fn sequence_numbers_advance_by_the_clock_and_differ_by_connection() {
        let secret = Secret([1, 2]);
        let first = secret.sequence_number(&tuple(V4, 1), 0);
        assert_eq!(secret.sequence_number(&tuple(V4, 1), 1000 * ISN_TICK), first + 1000);
        let others = [tuple(V4, 2), tuple(Ipv6Addr::LOCALHOST.into(), 1)];
        for other in others {
            let distance = secret.sequence_number(&other, 0).0.abs_diff(first.0);
            assert!(distance > 1000, "{distance}");
        }
        assert_ne!(Secret([1, 3]).sequence_number(&tuple(V4, 1), 0), first);
    }

    #[test]
    fn timestamp_clock_is_the_same_for_all_ports() {
        let secret = Secret([1, 2]);
        assert_eq!(secret.clock_offset(&tuple(V4, 1)), secret.clock_offset(&tuple(V4, 2)));
        assert_ne!(
            secret.clock_offset(&tuple(V4, 1)),
            secret.clock_offset(&tuple(Ipv6Addr::LOCALHOST.into(), 1))
        );
    }
}
