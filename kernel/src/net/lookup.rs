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
    match ask(network, name, family, addresses) {
        // There may be somebody to ask soon, and a way there: both come with the machine's address.
        Err(Errno::ENETUNREACH | Errno::ETIMEDOUT) if configured::is_awaited() => {
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
