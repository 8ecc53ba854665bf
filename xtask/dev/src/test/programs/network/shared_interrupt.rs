//! Devices of QEMU's classic PC that share one line of interrupts, all of them busy.

use std::fs;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};

use super::tap::Tap;
use super::{http, ping_from_power_on};
use crate::test::platform::Platform;
use crate::test::tap_nic::TapNic;

/// Size of the disk.
const SIZE: usize = 256 << 10;

/// How long they are busy.
const TIME: Duration = Duration::from_secs(5);

/// Every fourth slot has the same line; without messages devices have nothing else.
const ON_THE_LINE: [&str; 3] = [",vectors=0,addr=4", "vectors=0,addr=8", "vectors=0,addr=0xc"];

pub(super) fn test(platform: &Platform<'_>) -> Result<()> {
    let tap = Tap::new()?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("disk");
    let contents: Vec<u8> =
        (0..SIZE).map(|place| u8::try_from(place / 512 % 251).unwrap_or_default()).collect();
    fs::write(&file, &contents)?;
    let [network, disk, random] = ON_THE_LINE;
    let nic = TapNic { properties: network.to_owned(), ..tap.nic() };
    let guest = platform.guest("httpd", &[]).memory(64).nic(nic).variable("HTTPD_FILE=/dev/vda");
    let guest = guest.qemu_options(&[
        "-drive",
        &format!("file={},format=raw,if=none,id=disk", file.display()),
        "-device",
        &format!("virtio-blk-pci,drive=disk,{disk}"),
        "-device",
        &format!("virtio-rng-pci,{random}"),
    ]);
    ping_from_power_on::from_power_on(&tap, &guest, |address| busy(address, &contents))
}

/// Reads the disk and much else at the same time.
fn busy(address: SocketAddr, contents: &[u8]) -> Result<()> {
    let start = Instant::now();
    thread::scope(|scope| {
        let network = scope.spawn(move || {
            while start.elapsed() < TIME {
                http::get(address, "/bytes/50000")?;
            }
            Ok::<_, anyhow::Error>(())
        });
        while start.elapsed() < TIME {
            ensure!(http::get(address, "/file")? == contents, "the disk is not read as it is");
        }
        network.join().map_err(|_| anyhow!("a client panicked"))?
    })
}
