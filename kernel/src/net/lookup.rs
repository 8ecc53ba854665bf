//! DNS queries.

use hermit_interface::Errno;
use hermit_interface::net::Endpoint;

use super::stack::Network;
use super::waiting::wait_until;
use super::waker_keys::WakerKey;
use super::{act, configured, network};

/// Resolves a name to addresses of one family or, with 0, of both; returns their number.
///
/// # Errors
///
/// `ENOENT` if the name does not exist, `ETIMEDOUT` if no name server answers, `ENETUNREACH` without a name server,
/// `EINVAL` if the name is invalid.
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
    let waker_key = WakerKey::new()?;
    let question = act(network, |stack| stack.resolve(name, family, waker_key.number()))?;
    wait_until(network, waker_key.waiters(), None, |stack| stack.resolved(question, addresses))
}
