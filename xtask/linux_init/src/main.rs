//! The init process of a Linux guest: it configures the network and executes the program that is measured.
//!
//! `linux_init ADDRESS/PREFIX PROGRAM [ARGUMENT...]` loads the kernel modules in `/modules`, sets the IPv4
//! address of the first Ethernet device, and executes the program. Debian's kernel for virtual machines has
//! its network driver in a module, so it cannot set an address from its command line (`ip=`). With `lo` in
//! place of the address there is the loopback device alone.

#![forbid(unsafe_code)]

mod netlink;

use std::ffi::OsString;
use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::thread;
use std::time::{Duration, Instant};
use std::{env, io};

use netlink::Netlink;

/// The first argument if there is no Ethernet device.
const LOOPBACK: &str = "lo";

/// Folder of the modules to load.
const MODULES: &str = "/modules";

/// Maximum time from loading the driver until its device appears.
const DEVICE_TIMEOUT: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    let arguments: Vec<OsString> = env::args_os().skip(1).collect();
    let Err(error) = prepare(&arguments);
    eprintln!("init: {error}");
    ExitCode::FAILURE
}

/// Configures the guest and executes the program; returns only if that fails.
fn prepare(arguments: &[OsString]) -> io::Result<std::convert::Infallible> {
    let [network, program, arguments @ ..] = arguments else {
        return Err(io::Error::other("usage: ADDRESS/PREFIX|lo PROGRAM [ARGUMENT...]"));
    };
    let mut netlink = Netlink::new()?;
    netlink.set_up(netlink.index(LOOPBACK)?)?;
    if network != LOOPBACK {
        let network = network.to_str().and_then(parse_network);
        let (address, prefix) =
            network.ok_or_else(|| io::Error::other("the first argument is neither ADDRESS/PREFIX nor lo"))?;
        load_modules()?;
        let device = wait_for_device(&netlink)?;
        netlink.add_address(device, address, prefix)?;
        netlink.set_up(device)?;
    }
    Err(Command::new(program).args(arguments).exec())
}

/// Parses an address and a prefix length.
fn parse_network(text: &str) -> Option<(Ipv4Addr, u8)> {
    let (address, prefix) = text.split_once('/')?;
    Some((address.parse().ok()?, prefix.parse().ok().filter(|&prefix| prefix <= 32)?))
}

/// Loads the modules. A module fails to load before those that it depends on, and dependencies differ between
/// kernel versions: so failed ones are tried again as long as at least one was loaded.
fn load_modules() -> io::Result<()> {
    let entries = fs::read_dir(MODULES)?.map(|entry| Ok(entry?.path()));
    let mut left = entries.collect::<io::Result<Vec<PathBuf>>>()?;
    loop {
        let before = left.len();
        let mut last = Ok(());
        left.retain(|file| match load(file) {
            Ok(()) => false,
            Err(error) => {
                last = Err(io::Error::other(format!("cannot load {}: {error}", file.display())));
                true
            }
        });
        if left.is_empty() || left.len() == before {
            return last;
        }
    }
}

/// Loads a module.
fn load(file: &Path) -> io::Result<()> {
    Ok(rustix::system::finit_module(File::open(file)?, c"", 0)?)
}

/// Waits for the first Ethernet device and returns its index.
fn wait_for_device(netlink: &Netlink) -> io::Result<u32> {
    let start = Instant::now();
    loop {
        match netlink.index("eth0") {
            Err(error) if start.elapsed() > DEVICE_TIMEOUT => return Err(error),
            Err(_) => thread::sleep(Duration::from_millis(1)),
            index => return index,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::parse_network;

    #[test]
    fn network_is_an_address_and_a_prefix_length() {
        assert_eq!(parse_network("10.0.0.2/24"), Some((Ipv4Addr::new(10, 0, 0, 2), 24)));
        for text in ["10.0.0.2", "10.0.0.2/33", "10.0.0/8", "::1/64", "/24"] {
            assert_eq!(parse_network(text), None, "{text}");
        }
    }
}
