//! Work on names: each is resolved to the address that is expected.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::{io, vec};

use crate::files::expect;
use crate::random::Random;

/// One name of so many has more addresses than fit a datagram, so that it takes a connection.
const LONG_ANSWER_INTERVAL: usize = 16;

/// Number of lookups of a name that may end without an answer: on a busy machine the server may answer late.
const ATTEMPTS: u32 = 10;

/// Text in the error of a lookup without an answer, on each system.
const NO_ANSWER: &str = "Temporary failure in name resolution";

/// Resolves a name; the expected address is among its addresses.
pub(crate) fn round(address: IpAddr, random: &mut Random) -> io::Result<()> {
    let is_long = random.below(LONG_ANSWER_INTERVAL) == 0;
    let number = random.below(1_000_000);
    let name = if is_long { format!("many{number}.test") } else { format!("name{number}.test") };
    let found: Vec<_> = lookup(&name)?.collect();
    let is_expected = found.iter().any(|found| found.ip() == address) && (found.len() > 1) == is_long;
    expect(is_expected, &format!("{name} has {} addresses, the first one {:?}", found.len(), found.first()))
}

/// Looks a name up, again if there is no answer.
fn lookup(name: &str) -> io::Result<vec::IntoIter<SocketAddr>> {
    let mut attempts = 1;
    loop {
        match (name, 80).to_socket_addrs() {
            Err(error) if attempts < ATTEMPTS && error.to_string().contains(NO_ANSWER) => attempts += 1,
            result => return result,
        }
    }
}
