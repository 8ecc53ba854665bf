//! What a network device says about itself (virtio 1.2, section 5.1.4), and which features are used.

use virtio_spec::net::{F, S};

use crate::device::{Device, InitError};
use crate::transport::Transport;

/// Offsets in the configuration.
mod field {
    pub(super) const MAC: usize = 0;
    pub(super) const STATUS: usize = 6;
    pub(super) const MTU: usize = 10;
}

/// The MTU of a device that says nothing about it.
const DEFAULT_MTU: u16 = 1500;

/// The least MTU that a device may have (section 5.1.4.1).
const MIN_MTU: u16 = 68;

/// The bit in the first byte of an address that is a group's.
const GROUP: u8 = 1;

/// Which TCP segments the device cuts up, when they are larger than the network takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TsoSupport {
    /// Those over IPv4.
    pub v4: bool,
    /// Those over IPv6.
    pub v6: bool,
}

/// What a device can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetInfo {
    /// Its address; `None` if it has none, and then the driver's owner chooses one.
    pub mac: Option<[u8; 6]>,
    /// Most bytes of an IP packet on the network.
    pub mtu: u16,
    /// Whether it checks checksums of received TCP and UDP packets: see [`RxInfo`](super::RxInfo).
    pub rx_checksum: bool,
    /// Whether it completes checksums of transmitted ones: see [`TxOffload`](super::TxOffload).
    pub tx_checksum: bool,
    /// What it cuts up: frames of up to [`MAX_FRAME`](super::MAX_FRAME) bytes.
    pub tso: TsoSupport,
    /// Whether it is connected.
    pub link_up: bool,
}

/// What the driver accepts of what a device offers: no feature without those that it needs (section 5.1.3.1), and no large
/// received frames unless they may lie in several buffers.
pub(super) fn wanted(offered: virtio_spec::F) -> F {
    let offered = F::from(offered);
    let mut wanted = F::MAC | F::MTU | F::STATUS | F::CSUM | F::GUEST_CSUM | F::MRG_RXBUF;
    if offered.contains(F::CSUM) {
        wanted |= F::HOST_TSO4 | F::HOST_TSO6;
    }
    if offered.contains(F::GUEST_CSUM | F::MRG_RXBUF) {
        wanted |= F::GUEST_TSO4 | F::GUEST_TSO6;
    }
    wanted
}

impl NetInfo {
    /// Reads the configuration; fields count only with their feature.
    pub(super) fn read<T: Transport>(device: &Device<T>) -> Result<Self, InitError> {
        let features = F::from(device.features());
        let mac = if features.contains(F::MAC) { read_mac(device)? } else { None };
        let mtu = if features.contains(F::MTU) {
            device.config(|config| config.read_u16(field::MTU))?
        } else {
            DEFAULT_MTU
        };
        if mtu < MIN_MTU {
            return Err(InitError::InvalidConfig);
        }
        let tso = TsoSupport { v4: features.contains(F::HOST_TSO4), v6: features.contains(F::HOST_TSO6) };
        Ok(Self {
            mac,
            mtu,
            rx_checksum: features.contains(F::GUEST_CSUM),
            tx_checksum: features.contains(F::CSUM),
            tso,
            link_up: read_link(device)?,
        })
    }

    /// Reads the link's state again. A configuration that changes all the time is read at the next interrupt.
    pub(super) fn update_link<T: Transport>(&mut self, device: &Device<T>) {
        self.link_up = read_link(device).unwrap_or(self.link_up);
    }
}

/// Reads the address, if it can be one of a device.
fn read_mac<T: Transport>(device: &Device<T>) -> Result<Option<[u8; 6]>, InitError> {
    let mac: [u8; 6] = device.config(|config| {
        let mut mac = [0; 6];
        for (offset, byte) in mac.iter_mut().enumerate() {
            *byte = config.read_u8(field::MAC + offset)?;
        }
        Some(mac)
    })?;
    Ok(Some(mac).filter(|mac| mac[0] & GROUP == 0 && *mac != [0; 6]))
}

/// Whether the device is connected; one that does not tell always is.
fn read_link<T: Transport>(device: &Device<T>) -> Result<bool, InitError> {
    if !F::from(device.features()).contains(F::STATUS) {
        return Ok(true);
    }
    let status = device.config(|config| config.read_u16(field::STATUS))?;
    Ok(S::from_bits_retain(status.into()).contains(S::LINK_UP))
}
