//! Device configuration of a network device (virtio 1.2, section 5.1.4), and feature selection.

use virtio_spec::net::{F, S};

use crate::device::{Device, InitError};
use crate::transport::Transport;

/// Offsets of fields in the configuration.
mod field {
    pub(super) const MAC: usize = 0;
    pub(super) const STATUS: usize = 6;
    pub(super) const MTU: usize = 10;
}

/// MTU of a device without `VIRTIO_NET_F_MTU`.
const DEFAULT_MTU: u16 = 1500;

/// Minimum MTU that a device may report (section 5.1.4.1).
const MIN_MTU: u16 = 68;

/// Group bit (I/G) in the first byte of a MAC address.
const GROUP_BIT: u8 = 1;

/// Support for TCP segmentation offload (TSO), by IP version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TsoSupport {
    /// TSO over IPv4.
    pub v4: bool,
    /// TSO over IPv6.
    pub v6: bool,
}

/// Capabilities of the device, and the state of its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetInfo {
    /// MAC address; `None` if the device has no valid address. Then the driver's owner chooses an address.
    pub mac: Option<[u8; 6]>,
    /// Maximum size of an IP packet, in bytes.
    pub mtu: u16,
    /// True if the device validates the checksums of received TCP and UDP packets: see
    /// [`RxInfo`](super::RxInfo).
    pub rx_checksum: bool,
    /// True if the device completes the checksums of transmitted TCP and UDP packets: see
    /// [`TxOffload`](super::TxOffload).
    pub tx_checksum: bool,
    /// TSO, for frames of up to [`MAX_FRAME`](super::MAX_FRAME) bytes.
    pub tso: TsoSupport,
    /// True if the link is up.
    pub link_up: bool,
}

/// Features that the driver accepts if the device offers `offered`. A feature is left out if the device does
/// not offer the features on which it depends (section 5.1.3.1). Large received frames also require mergeable
/// buffers.
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
    /// Reads the configuration. A field is valid only if its feature was negotiated.
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

    /// Reads the state of the link again. If the configuration does not stop changing, the state stays as it
    /// is until the next interrupt.
    pub(super) fn update_link<T: Transport>(&mut self, device: &Device<T>) {
        self.link_up = read_link(device).unwrap_or(self.link_up);
    }
}

/// Reads the MAC address; `None` if it is no unicast address.
fn read_mac<T: Transport>(device: &Device<T>) -> Result<Option<[u8; 6]>, InitError> {
    let mac: [u8; 6] = device.config(|config| {
        let mut mac = [0; 6];
        for (offset, byte) in mac.iter_mut().enumerate() {
            *byte = config.read_u8(field::MAC + offset)?;
        }
        Some(mac)
    })?;
    Ok(Some(mac).filter(|mac| mac[0] & GROUP_BIT == 0 && *mac != [0; 6]))
}

/// Reads the state of the link. Without `VIRTIO_NET_F_STATUS` the link counts as up.
fn read_link<T: Transport>(device: &Device<T>) -> Result<bool, InitError> {
    if !F::from(device.features()).contains(F::STATUS) {
        return Ok(true);
    }
    let status = device.config(|config| config.read_u16(field::STATUS))?;
    Ok(S::from_bits_retain(status.into()).contains(S::LINK_UP))
}
