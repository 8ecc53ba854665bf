//! Work on names: each is resolved to the address that is expected.

use std::io;
use std::net::{IpAddr, ToSocketAddrs};

use crate::files::expect;
use crate::random::Random;

/// One name of so many has more addresses than fit a datagram, so that it takes a connection.
const LONG_ANSWER_INTERVAL: usize = 16;

/// Resolves a name; the expected address is among its addresses.
pub(crate) fn round(address: IpAddr, random: &mut Random) -> io::Result<()> {
    let is_long = random.below(LONG_ANSWER_INTERVAL) == 0;
    let number = random.below(1_000_000);
    let name = if is_long { format!("many{number}.test") } else { format!("name{number}.test") };
    let found: Vec<_> = (name.as_str(), 80).to_socket_addrs()?.collect();
    let is_expected = found.iter().any(|found| found.ip() == address) && (found.len() > 1) == is_long;
    expect(is_expected, &format!("{name} has {} addresses, the first one {:?}", found.len(), found.first()))
}
