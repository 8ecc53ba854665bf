//! The network options of a guest: `--net` and `-p`.

use hermit_interface::port_forward::PortForward;
use hermit_options::network::{self, BackendConfig, NetworkConfig, NetworkOption};

/// Keys of `--net` that only guests of uhyve support. They limit rates, which `uhyve net`, the network of
/// guests under QEMU, does not.
const OF_UHYVE: [&str; 2] = ["bps=", "pps="];

/// Checks the value of `--net` and returns it unchanged: uhyve parses the text itself.
pub fn parse(text: &str) -> Result<String, String> {
    text.parse::<NetworkOption>().map(|_| text.to_owned())
}

/// Converts `--net` and `-p` into a guest's network. Returns `None` if the guest has no network.
fn device(net: Option<&str>, ports: &[PortForward]) -> Result<Option<NetworkConfig>, String> {
    let choice = net.map(str::parse).transpose()?;
    network::device(choice, ports.to_vec())
}

/// Rejects options that neither uhyve nor QEMU accepts.
pub fn check(net: Option<&str>, ports: &[PortForward]) -> Result<(), String> {
    device(net, ports).map(drop)
}

/// Returns true if the guest has the user-mode network, in which sockets of the host carry its connections.
pub fn is_user(net: Option<&str>, ports: &[PortForward]) -> bool {
    user(net, ports).is_ok()
}

/// Returns the configuration of a guest's user-mode network.
///
/// # Errors
///
/// Fails if the guest has another kind of network, or no network.
pub fn user(net: Option<&str>, ports: &[PortForward]) -> Result<NetworkConfig, String> {
    let config = device(net, ports)?.filter(|config| matches!(config.backend, BackendConfig::User(_)));
    config.ok_or_else(|| "--net: this is not the network user".to_owned())
}

/// Returns QEMU's options for a guest with a tap interface, or no options for a guest without a network.
/// [`UserNetwork`](crate::user_network::UserNetwork) has the options of the network `user`.
///
/// # Errors
///
/// Fails if the options are invalid, or if only uhyve supports them.
pub fn qemu_options(net: Option<&str>, ports: &[PortForward]) -> Result<Vec<String>, String> {
    let Some(config) = device(net, ports)? else { return Ok(Vec::new()) };
    let is_tap = matches!(config.backend, BackendConfig::Tap(_));
    let is_of_uhyve = |key: &&str| is_tap || OF_UHYVE.iter().any(|start| key.starts_with(start));
    if let Some(key) = net.unwrap_or_default().split(',').skip(1).find(is_of_uhyve) {
        return Err(format!("--net: {key} is for uhyve, not for QEMU: use --platform kvm or process"));
    }
    let BackendConfig::Tap(name) = &config.backend else { return Ok(Vec::new()) };
    // The name of a tap contains no comma, which would begin another option.
    let netdev = format!("tap,id=net,ifname={},script=no,downscript=no", name.as_str());
    let device = "virtio-net-pci,disable-legacy=on,netdev=net".to_owned();
    Ok(vec!["-netdev".to_owned(), netdev, "-device".to_owned(), device])
}

#[cfg(test)]
mod tests {
    use super::{PortForward, check, is_user, parse, qemu_options};

    fn port(text: &str) -> PortForward {
        text.parse().unwrap()
    }

    #[test]
    fn qemu_options_are_those_of_a_tap() {
        let none: &[String] = &[];
        for net in [None, Some("none"), Some("user,host-loopback,dns=1.1.1.1,egress=none,mtu=1500")] {
            assert_eq!(qemu_options(net, &[]).unwrap(), none, "{net:?}");
        }
        assert_eq!(qemu_options(None, &[port("8080:80"), port("[::1]:53:53/udp")]).unwrap(), none);
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
            ("tap=a,ip=10.0.0.2/24,dns=1.1.1.1", &[], "ip=10.0.0.2/24 is for uhyve"),
            ("user,dns=1.1.1.1,bps=10M", &[], "bps=10M is for uhyve"),
            ("user,pps=1000", &[], "pps=1000 is for uhyve"),
            ("user,host-loopback=1", &[], "takes no value"),
            ("tap=a,host-loopback", &[], "goes with user"),
            ("none,host-loopback", &[], "nothing goes with none"),
            ("passt,host-loopback", &[], "--net user"),
            ("x", &[], "unknown network"),
            ("none", &[port("1:2")], "remove --net none"),
            ("tap=a", &[port("1:2")], "-p goes with --net user"),
            ("user", &[port("8080:80"), port("8080:81")], "given twice"),
        ] {
            let error = qemu_options(Some(net), ports).unwrap_err();
            assert!(error.contains(text), "{net}: {error}");
        }
    }

    #[test]
    fn user_network_is_the_one_of_ports() {
        assert!(is_user(None, &[port("1:2")]));
        for (net, is_user_network) in [
            (None, false),
            (Some("none"), false),
            (Some("tap=user"), false),
            (Some("user"), true),
            (Some("user,mtu=1500"), true),
        ] {
            assert_eq!(is_user(net, &[]), is_user_network, "{net:?}");
        }
    }

    #[test]
    fn options_of_uhyve_are_checked_by_its_parser() {
        for net in [
            "none",
            "user",
            "user,mtu=1500",
            "user,host-loopback",
            "tap=tap0,ip=10.0.0.2/24",
            "user,egress=none,allow=10.0.0.0/8",
        ] {
            assert_eq!(parse(net).as_deref(), Ok(net));
            assert_eq!(check(Some(net), &[]), Ok(()));
        }
        assert_eq!(check(None, &[port("[::1]:8080:80")]), Ok(()));
        for net in ["", "x", "tap", "user,x=1", "user,mtu=1", "none,mtu=1500", "bridge=br0", "user=1"] {
            assert!(parse(net).is_err(), "{net}");
        }
    }
}
