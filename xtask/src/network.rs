//! The network options of a guest: `--net` and `-p`.

use std::net::IpAddr;

use hermit_interface::port_forward::{PortForward, Protocol};
use hermit_options::network::{self, NetworkOption};
use hermit_options::passt::HOST_LOOPBACK;

/// Returns a forward as the `hostfwd=` option of QEMU's user network.
fn hostfwd(forward: &PortForward) -> String {
    let protocol = if forward.protocol == Protocol::Udp { "udp" } else { "tcp" };
    let address = forward.address.map(|address| address.to_string()).unwrap_or_default();
    format!("hostfwd={protocol}:{address}:{}-:{}", forward.host, forward.guest)
}

/// Option of the kernel that resolves `host.hermit.internal` to the address which both passt and QEMU's user network map to the
/// host's loopback.
pub(crate) const HOST_IS_GATEWAY: &str = "host=gateway";

/// Whether the guest reaches the host's loopback.
pub(crate) fn has_host_loopback(net: Option<&str>) -> bool {
    keys(net).any(|key| key == HOST_LOOPBACK)
}

/// The keys of a network.
fn keys(net: Option<&str>) -> impl Iterator<Item = &str> {
    net.unwrap_or_default().split(',').skip(1)
}

/// Returns the options of the kernel for a guest in QEMU's user network.
pub fn kernel_options(net: Option<&str>) -> Vec<String> {
    if has_host_loopback(net) { vec![HOST_IS_GATEWAY.to_owned()] } else { Vec::new() }
}

/// Parses `--net`, which stays text: uhyve gets it as it is.
pub(crate) fn parse(text: &str) -> Result<String, String> {
    text.parse::<NetworkOption>().map(|_| text.to_owned())
}

/// Rejects options that neither uhyve nor QEMU accepts.
pub(crate) fn check(net: Option<&str>, ports: &[PortForward]) -> Result<(), String> {
    let choice = net.map(str::parse).transpose()?;
    network::device(choice, ports.to_vec()).map(drop)
}

/// Returns QEMU's options for the network of a guest; none for a guest without a network.
///
/// # Errors
///
/// Fails if the options are invalid, or if only uhyve supports them.
pub fn qemu_options(net: Option<&str>, ports: &[PortForward]) -> Result<Vec<String>, String> {
    const UHYVE: &str = "use --platform kvm or process";
    check(net, ports)?;
    if let Some(key) = keys(net).find(|&key| key != HOST_LOOPBACK) {
        return Err(format!("--net: {key} is for uhyve, not for QEMU: {UHYVE}"));
    }
    let host_loopback = has_host_loopback(net);
    let net = net.and_then(|net| net.split(',').next());
    if let Some(port) = ports.iter().find(|port| port.address.as_ref().is_some_and(IpAddr::is_ipv6)) {
        return Err(format!(
            "-p {port}: QEMU forwards ports at IPv4 addresses only, uhyve also at IPv6 addresses: {UHYVE}"
        ));
    }
    let netdev = match net.map(|net| net.strip_prefix("tap=").ok_or(net)) {
        None if ports.is_empty() => return Ok(Vec::new()),
        Some(Err("none")) => return Ok(Vec::new()),
        // The name has no comma, which would start another option: `check` parsed it.
        Some(Ok(name)) => format!("tap,id=net,ifname={name},script=no,downscript=no"),
        _ => {
            let forwards = ports.iter().map(|port| format!(",{}", hostfwd(port)));
            // Without its restriction, QEMU's user network maps the gateway to the host's loopback.
            let restriction = if host_loopback { "" } else { ",restrict=on" };
            format!("user,id=net{restriction}{}", forwards.collect::<String>())
        }
    };
    let device = "virtio-net-pci,disable-legacy=on,netdev=net".to_owned();
    Ok(vec!["-netdev".to_owned(), netdev, "-device".to_owned(), device])
}

#[cfg(test)]
mod tests {
    use super::{PortForward, check, kernel_options, parse, qemu_options};

    fn port(text: &str) -> PortForward {
        text.parse().unwrap()
    }

    #[test]
    fn qemu_options_are_those_of_the_network() {
        let none: &[String] = &[];
        assert_eq!(qemu_options(None, &[]).unwrap(), none);
        assert_eq!(qemu_options(Some("none"), &[]).unwrap(), none);
        let options = qemu_options(None, &[port("8080:80"), port("127.0.0.1:53:5353/udp")]).unwrap();
        let user = "user,id=net,restrict=on,hostfwd=tcp::8080-:80,hostfwd=udp:127.0.0.1:53-:5353";
        assert_eq!(options[1], user);
        assert_eq!(qemu_options(Some("user,host-loopback"), &[]).unwrap()[1], "user,id=net");
        assert_eq!(kernel_options(Some("user,host-loopback")), ["host=gateway"]);
        for net in [None, Some("user"), Some("none"), Some("tap=host-loopback")] {
            assert_eq!(kernel_options(net), none);
        }
        let tap = "tap,id=net,ifname=tap0,script=no,downscript=no";
        assert_eq!(qemu_options(Some("tap=tap0"), &[]).unwrap()[1], tap);
    }

    #[test]
    fn qemu_options_that_qemu_lacks_are_rejected() {
        for (net, ports, text) in [
            ("tap=", &[][..], "no name of a network interface"),
            ("tap=sixteen_bytes_xx", &[], "no name of a network interface"),
            ("tap=a/b", &[], "no name of a network interface"),
            ("tap=a,mtu=1500", &[], "mtu=1500 is for uhyve"),
            ("passt,ip=10.0.0.2/24,dns=1.1.1.1", &[], "ip=10.0.0.2/24 is for uhyve"),
            ("user,host-loopback,dns=1.1.1.1", &[], "dns=1.1.1.1 is for uhyve"),
            ("passt,host-loopback,dns=1.1.1.1", &[], "dns=1.1.1.1 is for uhyve"),
            ("passt,egress=none", &[], "egress=none is for uhyve"),
            ("user,deny=10.0.0.0/8", &[], "deny=10.0.0.0/8 is for uhyve"),
            ("user,host-loopback=1", &[], "takes no value"),
            ("tap=a,host-loopback", &[], "goes with passt"),
            ("none,host-loopback", &[], "nothing goes with none"),
            ("x", &[], "unknown network"),
            ("none", &[port("1:2")], "remove --net none"),
            ("tap=a", &[port("1:2")], "-p goes with --net passt"),
            ("user", &[port("8080:80"), port("8080:81")], "given twice"),
            ("user", &[port("1:2"), port("[::1]:8080:80")], "-p [::1]:8080:80: QEMU"),
        ] {
            let error = qemu_options(Some(net), ports).unwrap_err();
            assert!(error.contains(text), "{net}: {error}");
        }
    }

    #[test]
    fn options_of_uhyve_are_checked_by_its_parser() {
        for net in [
            "none",
            "user",
            "user,mtu=1500",
            "passt,host-loopback",
            "tap=tap0,ip=10.0.0.2/24",
            "passt,egress=none,allow=10.0.0.0/8",
        ] {
            assert_eq!(parse(net).as_deref(), Ok(net));
            assert_eq!(check(Some(net), &[]), Ok(()));
        }
        assert_eq!(check(None, &[port("[::1]:8080:80")]), Ok(()));
        for net in ["", "x", "tap", "user,x=1", "passt,mtu=1", "none,mtu=1500", "bridge=br0", "passt=1"] {
            assert!(parse(net).is_err(), "{net}");
        }
    }
}
