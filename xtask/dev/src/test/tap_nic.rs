//! The network interface of a guest on a tap of the host.

use std::net::IpAddr;

/// A tap of the host, and the configuration of the guest's interface on it.
#[derive(Clone, Debug)]
pub(super) struct TapNic {
    /// Name of the tap.
    pub(super) tap: String,
    /// The guest's MAC address.
    pub(super) mac: String,
    /// The guest's addresses, each with the length of its prefix.
    pub(super) addresses: Vec<(IpAddr, u8)>,
    /// The default gateway.
    pub(super) gateway: IpAddr,
    /// Additional properties of QEMU's device, each with a comma before it.
    pub(super) properties: String,
}

impl TapNic {
    /// Returns the value of uhyve's option `--net`.
    pub(super) fn uhyve(&self) -> String {
        let addresses = self.addresses.iter().map(|(address, prefix)| format!(",ip={address}/{prefix}"));
        let addresses: String = addresses.collect();
        format!("tap={},mac={}{addresses},gateway={}", self.tap, self.mac, self.gateway)
    }

    /// Returns QEMU's options.
    pub(super) fn qemu(&self) -> [String; 4] {
        let Self { tap, mac, properties, .. } = self;
        [
            "-netdev".to_owned(),
            format!("tap,id=net,ifname={tap},script=no,downscript=no"),
            "-device".to_owned(),
            format!("virtio-net-pci,disable-legacy=on,netdev=net,mac={mac}{properties}"),
        ]
    }

    /// Returns the addresses as parameters of the kernel's command line, for QEMU.
    pub(super) fn parameters(&self) -> Vec<String> {
        let addresses = self.addresses.iter().map(|(address, prefix)| format!("ip={address}/{prefix}"));
        addresses.chain([format!("gateway={}", self.gateway)]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::TapNic;

    #[test]
    fn uhyve_and_qemu_get_the_same_addresses() {
        let nic = TapNic {
            tap: "t".to_owned(),
            mac: "52:54:00:12:34:56".to_owned(),
            addresses: vec![("10.0.0.2".parse().unwrap(), 24), ("fd00::2".parse().unwrap(), 64)],
            gateway: "10.0.0.1".parse().unwrap(),
            properties: ",vectors=0".to_owned(),
        };
        assert_eq!(nic.uhyve(), "tap=t,mac=52:54:00:12:34:56,ip=10.0.0.2/24,ip=fd00::2/64,gateway=10.0.0.1");
        assert_eq!(nic.parameters(), ["ip=10.0.0.2/24", "ip=fd00::2/64", "gateway=10.0.0.1"]);
        assert!(nic.qemu()[3].ends_with("mac=52:54:00:12:34:56,vectors=0"));
    }
}
