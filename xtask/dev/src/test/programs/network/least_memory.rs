//! Checks if `httpd` serves requests in a machine with a given size of memory.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Error, Result, bail};
use hermit_machines::qemu::{Board, End, Guest, Input};
use hermit_machines::user_network::UserNetwork;

use super::http;
use super::path::NetworkPath;

/// Time between two attempts to reach the server.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// Network of the guest. Packets have the usual size, because their buffers need memory.
const NETWORK: &str = "user,mtu=1500";

/// Runs `httpd` in a machine with a network device. Requests its page, and then its end. Returns true if both
/// succeeded.
pub(in crate::test) fn serves(uhyve: &Path, guest: Guest) -> Result<bool> {
    let NetworkPath::Port(port) = NetworkPath::port()? else { bail!("there is no port") };
    let forward = format!("127.0.0.1:{port}:8080").parse().map_err(Error::msg)?;
    let network = UserNetwork::start(uhyve, Some(NETWORK), &[forward], &[], Stdio::inherit())?;
    let guest = Guest { board: Board::Pc, extra_options: network.qemu_options().to_vec(), ..guest };
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    thread::scope(|scope| {
        let running = scope.spawn(|| guest.capture(Input::Bytes(Vec::new())));
        let (start, mut is_served) = (Instant::now(), false);
        while !running.is_finished() {
            is_served = is_served || http::get_within(address, "/", http::attempt_timeout(start)).is_ok();
            // The machine may end before the response to the request to end is transmitted. Then only the
            // exit code shows the success.
            if !is_served || http::exit(address).is_err() {
                thread::sleep(RETRY_INTERVAL);
            }
        }
        let Ok(ended) = running.join() else { bail!("the thread that runs the guest panicked") };
        Ok(is_served && matches!(ended?, (End::Exited(0), _)))
    })
}
