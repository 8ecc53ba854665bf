//! Addresses of names.

use hermit_interface::Errno;
use hermit_interface::net::Endpoint;

use super::cookies::Cookie;
use super::stack::Network;
use super::waiting::wait_until;
use super::{act, configured, network};

/// Writes addresses of a name, of a family or, with 0, of both; how many there are.
///
/// # Errors
///
/// `ENOENT` if there is no such name, `ETIMEDOUT` if nobody answers, `ENETUNREACH` if there is nobody to ask, `EINVAL` if it cannot
/// be a name.
pub(crate) fn resolve(name: &[u8], family: u32, addresses: &mut [Endpoint]) -> Result<usize, Errno> {
    let network = network()?;
    // Read first: the address may arrive between the failure of the query and its handling.
    let lacks_address = configured::is_awaited();
    match ask(network, name, family, addresses) {
        // A name server and a route to it come with the machine's address.
        Err(Errno::ENETUNREACH | Errno::ETIMEDOUT) if lacks_address => {
            configured::wait_for_others(network);
            ask(network, name, family, addresses)
        }
        answer => answer,
    }
}

fn ask(network: &Network, name: &[u8], family: u32, addresses: &mut [Endpoint]) -> Result<usize, Errno> {
    let cookie = Cookie::new()?;
    let question = act(network, |stack| stack.resolve(name, family, cookie.number()))?;
    wait_until(network, cookie.waiters(), None, |stack| stack.resolved(question, addresses))
}
