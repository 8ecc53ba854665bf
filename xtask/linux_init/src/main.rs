//! The first process of a Linux guest: it sees to a network, and becomes the program that is to be measured.
//!
//! `linux_init ADDRESS/PREFIX PROGRAM [ARGUMENT...]` loads the kernel modules in `/modules`, gives the
//! first Ethernet device that address (of version 4), and executes the program. Debian's kernel for virtual machines has its
//! drivers in modules, and cannot set an address by its command line.

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

/// The folder of the modules to load.
const MODULES: &str = "/modules";

/// How long a device may take to appear behind its driver.
const PATIENCE: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    let arguments: Vec<OsString> = env::args_os().skip(1).collect();
    let Err(error) = prepare(&arguments);
    eprintln!("init: {error}");
    ExitCode::FAILURE
}

/// Never returns if all goes well.
fn prepare(arguments: &[OsString]) -> io::Result<std::convert::Infallible> {
    let [network, program, arguments @ ..] = arguments else {
        return Err(io::Error::other("usage: ADDRESS/PREFIX PROGRAM [ARGUMENT...]"));
    };
    let network = network.to_str().and_then(network_of);
    let (address, prefix) = network.ok_or_else(|| io::Error::other("this is no ADDRESS/PREFIX"))?;
    load_modules()?;
    let mut netlink = Netlink::new()?;
    netlink.switch_on(netlink.index("lo")?)?;
    let device = wait_for_device(&netlink)?;
    netlink.add_address(device, address, prefix)?;
    netlink.switch_on(device)?;
    Err(Command::new(program).args(arguments).exec())
}

fn network_of(text: &str) -> Option<(Ipv4Addr, u8)> {
    let (address, prefix) = text.split_once('/')?;
    Some((address.parse().ok()?, prefix.parse().ok().filter(|&prefix| prefix <= 32)?))
}

/// Loads the modules again and again, as long as that gets on: each may need others, which differ from version to version.
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

fn load(file: &Path) -> io::Result<()> {
    Ok(rustix::system::finit_module(File::open(file)?, c"", 0)?)
}

/// The first Ethernet device, once it is there.
fn wait_for_device(netlink: &Netlink) -> io::Result<u32> {
    let start = Instant::now();
    loop {
        match netlink.index("eth0") {
            Err(error) if start.elapsed() > PATIENCE => return Err(error),
            Err(_) => thread::sleep(Duration::from_millis(1)),
            index => return index,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::network_of;

    #[test]
    fn a_network_is_an_address_and_a_prefix() {
        assert_eq!(network_of("10.0.0.2/24"), Some((Ipv4Addr::new(10, 0, 0, 2), 24)));
        for text in ["10.0.0.2", "10.0.0.2/33", "10.0.0/8", "::1/64", "/24"] {
            assert_eq!(network_of(text), None, "{text}");
        }
    }
}
