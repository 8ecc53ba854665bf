//! Tests devices of QEMU's classic PC that share an interrupt line while all of them are busy.

use std::fs;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};

use super::tap::Tap;
use super::{http, ping_from_power_on};
use crate::test::platform::TestPlatform;
use crate::test::tap_nic::TapNic;

/// Size of the disk in bytes.
const SIZE: usize = 256 << 10;

/// Time for which the devices are busy.
const TIME: Duration = Duration::from_secs(5);

/// Properties that make the devices share an interrupt line. Every fourth PCI slot has the same line; without
/// vectors, the devices have no MSI-X.
const ON_ONE_LINE: [&str; 3] = [",vectors=0,addr=4", "vectors=0,addr=8", "vectors=0,addr=0xc"];

pub(super) fn test(platform: &TestPlatform<'_>) -> Result<()> {
    let tap = Tap::new()?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("disk");
    let contents: Vec<u8> =
        (0..SIZE).map(|index| u8::try_from(index / 512 % 251).unwrap_or_default()).collect();
    fs::write(&file, &contents)?;
    let [network, disk, random] = ON_ONE_LINE;
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

/// Reads the disk and transfers data at the same time.
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
            ensure!(
                http::get(address, "/file")? == contents,
                "the bytes that were read are not those of the disk"
            );
        }
        network.join().map_err(|_| anyhow!("a client panicked"))?
    })
}
