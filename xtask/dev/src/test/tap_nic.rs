//! How a guest is plugged into an interface of the host.

use std::net::IpAddr;

/// An interface of the host, and what the guest is on its network.
#[derive(Clone, Debug)]
pub(super) struct TapNic {
    /// The interface, a tap.
    pub(super) tap: String,
    /// The guest's address on the wire.
    pub(super) mac: String,
    /// The guest's addresses, each with the length of its network's prefix.
    pub(super) addresses: Vec<(IpAddr, u8)>,
    /// Where the guest sends what is for others.
    pub(super) gateway: IpAddr,
    /// More properties of QEMU's device.
    pub(super) properties: String,
}

impl TapNic {
    /// The value of uhyve's option `--net`.
    pub(super) fn uhyve(&self) -> String {
        let addresses = self.addresses.iter().map(|(address, prefix)| format!(",ip={address}/{prefix}"));
        let addresses: String = addresses.collect();
        format!("tap={},mac={}{addresses},gateway={}", self.tap, self.mac, self.gateway)
    }

    /// QEMU's options.
    pub(super) fn qemu(&self) -> [String; 4] {
        let Self { tap, mac, properties, .. } = self;
        [
            "-netdev".to_owned(),
            format!("tap,id=net,ifname={tap},script=no,downscript=no"),
            "-device".to_owned(),
            format!("virtio-net-pci,disable-legacy=on,netdev=net,mac={mac}{properties}"),
        ]
    }

    /// What QEMU's guest is told on its command line.
    pub(super) fn words(&self) -> Vec<String> {
        let addresses = self.addresses.iter().map(|(address, prefix)| format!("ip={address}/{prefix}"));
        addresses.chain([format!("gateway={}", self.gateway)]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::TapNic;

    #[test]
    fn uhyve_and_qemu_are_told_the_same() {
        let nic = TapNic {
            tap: "t".to_owned(),
            mac: "52:54:00:12:34:56".to_owned(),
            addresses: vec![("10.0.0.2".parse().unwrap(), 24), ("fd00::2".parse().unwrap(), 64)],
            gateway: "10.0.0.1".parse().unwrap(),
            properties: ",vectors=0".to_owned(),
        };
        assert_eq!(nic.uhyve(), "tap=t,mac=52:54:00:12:34:56,ip=10.0.0.2/24,ip=fd00::2/64,gateway=10.0.0.1");
        assert_eq!(nic.words(), ["ip=10.0.0.2/24", "ip=fd00::2/64", "gateway=10.0.0.1"]);
        assert!(nic.qemu()[3].ends_with("mac=52:54:00:12:34:56,vectors=0"));
    }
}
