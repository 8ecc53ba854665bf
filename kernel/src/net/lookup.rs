//! Addresses of names.

use core::task::Poll;

use hermit_interface::Errno;
use hermit_interface::net::Endpoint;
use hermit_io::Waiters as _;

use super::cookies::Cookie;
use super::{configured, drive, network};
use crate::threads::wait::block_on;

/// Writes addresses of a name, of a family or, with 0, of both; how many there are.
///
/// # Errors
///
/// `ENOENT` if there is no such name, `ETIMEDOUT` if nobody answers, `ENETUNREACH` if there is nobody to ask, `EINVAL` if it cannot
/// be a name.
pub(crate) fn resolve(name: &[u8], family: u32, addresses: &mut [Endpoint]) -> Result<usize, Errno> {
    let network = network()?;
    let cookie = Cookie::new()?;
    let ask = || drive(network, |stack| stack.resolve(name, family, cookie.number()));
    let question = match ask() {
        // There may be somebody to ask soon.
        Err(Errno::ENETUNREACH) => {
            configured::wait_for_others(network);
            ask()?
        }
        question => question?,
    };
    block_on(|context| {
        cookie.waiters().add(context);
        match drive(network, |stack| stack.resolved(question, addresses)) {
            Err(Errno::EAGAIN) => Poll::Pending,
            result => Poll::Ready(result),
        }
    })
}
