//! The user-mode network of a guest under QEMU. The process `uhyve net` forwards the guest's connections
//! through sockets of the host, as uhyve does for its own guests.
//!
//! So a guest has the same network on all platforms: the same options, egress policy and forwarded ports.
//! QEMU and `uhyve net` exchange frames through a Unix socket (netdev `stream`). `uhyve net` listens on the
//! socket before QEMU starts, and exits when QEMU closes the connection. When it listens, it closes its
//! standard output. The caller waits for that, so it learns about errors before it boots the guest.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{io, thread};

use anyhow::{Context, Result, bail};
use hermit_interface::command_line::Encoder;
use hermit_interface::port_forward::PortForward;
use hermit_options::network::{MAX_USER_MTU, NetworkConfig};
use hermit_toolchain::process::dies_with_parent;
use hermit_toolchain::usage::usage_error;
use tempfile::TempDir;

use crate::network;
use crate::qemu::quote_commas;

/// Time for `uhyve net` to exit by itself after QEMU has exited.
const EXIT_TIME: Duration = Duration::from_secs(10);

/// Interval at which `uhyve net` is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Key of `--net` that only the guest's kernel uses.
const CONGESTION: &str = "congestion=";

/// A running `uhyve net`, which serves one guest and exits when QEMU exits. It must be dropped after the end
/// of QEMU, because the drop waits for the exit of `uhyve net`.
#[derive(Debug)]
pub struct UserNetwork {
    process: Child,
    folder: TempDir,
    /// Properties of QEMU's device, each with a comma before it.
    properties: String,
    kernel_options: Vec<String>,
}

impl UserNetwork {
    /// Starts `uhyve net` with the values of `--net` and `-p` and with further options such as `--quiet`, and
    /// waits until it listens. `uhyve net` prints errors, warnings and the ports that it chooses to `errors`.
    ///
    /// # Errors
    ///
    /// Fails if the options are not those of a user-mode network, or if `uhyve net` cannot be started or
    /// exits, for example because a port is in use.
    pub fn start(
        uhyve: &Path,
        net: Option<&str>,
        ports: &[PortForward],
        options: &[&str],
        errors: impl Into<Stdio>,
    ) -> Result<Self> {
        let config = network::user(net, ports).map_err(usage_error)?;
        let folder = TempDir::new().context("cannot make a temporary folder")?;
        let mut command = Command::new(uhyve);
        command.arg("net").arg("--socket").arg(socket(&folder)).args(options);
        if let Some(net) = net {
            command.args(["--net", &without_congestion(net)]);
        }
        command.args(ports.iter().flat_map(|port| ["-p".to_owned(), port.to_string()]));
        let process = dies_with_parent(command)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .with_context(|| format!("cannot start {}", uhyve.display()))?;
        let (properties, kernel_options) = (device_properties(&config), kernel_options(&config));
        let mut network = Self { process, folder, properties, kernel_options };
        network.wait_until_it_listens()?;
        Ok(network)
    }

    /// Waits for the end of the standard output of `uhyve net`, which closes it when the socket listens, or
    /// exits. Fails in the second case.
    fn wait_until_it_listens(&mut self) -> Result<()> {
        let context = "cannot wait for the guest's network";
        let mut output = self.process.stdout.take().context(context)?;
        output.read_to_end(&mut Vec::new()).context(context)?;
        // An exiting process closes its output some time before it can be waited for.
        if socket(&self.folder).exists() && self.process.try_wait().context(context)?.is_none() {
            return Ok(());
        }
        let status = self.process.wait().context(context)?;
        bail!("the guest cannot be connected: `uhyve net` has ended with {status} (see above)")
    }

    /// Returns the ID of the process `uhyve net`.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Returns QEMU's options for the guest's network device.
    pub fn qemu_options(&self) -> [String; 4] {
        let path = socket(&self.folder);
        let path = quote_commas(&path);
        [
            "-netdev".to_owned(),
            format!("stream,id=net,server=off,addr.type=unix,addr.path={path}"),
            "-device".to_owned(),
            format!("virtio-net-pci,disable-legacy=on,netdev=net{}", self.properties),
        ]
    }

    /// Returns the options of the guest's kernel.
    pub fn kernel_options(&self) -> &[String] {
        &self.kernel_options
    }
}

impl Drop for UserNetwork {
    fn drop(&mut self) {
        // If QEMU has never connected, `uhyve net` still waits for a connection, and this connection makes it
        // exit. If QEMU has connected, this call fails, because `uhyve net` removes the socket after the
        // first connection.
        drop(UnixStream::connect(socket(&self.folder)));
        let start = Instant::now();
        while matches!(self.process.try_wait(), Ok(None)) && start.elapsed() < EXIT_TIME {
            thread::sleep(POLL_INTERVAL);
        }
        // Both calls fail if the process has been reaped already, which is not an error.
        let _: io::Result<()> = self.process.kill();
        let _: io::Result<_> = self.process.wait();
    }
}

fn socket(folder: &TempDir) -> PathBuf {
    folder.path().join("socket")
}

/// Returns the value of `--net` without the key of the congestion control. Only the guest's kernel uses that
/// key, and `uhyve net` would reject it.
fn without_congestion(net: &str) -> String {
    let words: Vec<_> = net.split(',').filter(|word| !word.starts_with(CONGESTION)).collect();
    words.join(",")
}

/// Returns the properties of QEMU's device, each with a comma before it. Without a MAC address in the
/// configuration, the property is left out: QEMU and uhyve have the same default.
fn device_properties(config: &NetworkConfig) -> String {
    let mac = config.mac.map(|mac| format!(",mac={mac}")).unwrap_or_default();
    format!("{mac},host_mtu={}", config.mtu.unwrap_or(MAX_USER_MTU))
}

/// Returns the options of the guest's kernel.
fn kernel_options(config: &NetworkConfig) -> Vec<String> {
    let mut line = Encoder::new();
    config.encode(&mut line);
    // No value has a blank, so no option is quoted. The word `--` ends the options.
    let line = String::from_utf8_lossy(&line.finish()).into_owned();
    line.split(' ').take_while(|option| *option != "--").map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::{UserNetwork, device_properties, kernel_options, without_congestion};
    use crate::network;
    use hermit_interface::command_line::{HostAddress, NetworkOptions};
    use hermit_options::network::NetworkConfig;
    use std::fs;
    use std::path::PathBuf;
    use std::process::{Command, Stdio};
    use tempfile::TempDir;

    fn config(net: &str) -> NetworkConfig {
        network::user(Some(net), &[]).unwrap()
    }

    #[test]
    fn kernel_parses_its_options() {
        let config = config(
            "user,ip=10.0.0.2/24,ip=fd00::2/64,gateway=10.0.0.1,dns=1.1.1.1,search=a.test,search=b,\
             hostname=web,congestion=bbr,host-loopback,mtu=1500,egress=none",
        );
        let line = kernel_options(&config).join(" ") + " -- one";
        let parsed = NetworkOptions::parse(line.as_bytes());
        assert_eq!((parsed.ip.len(), parsed.malformed.len()), (2, 0));
        assert_eq!((parsed.gateways, parsed.nameservers), (config.gateways, config.nameservers));
        assert_eq!((parsed.search, parsed.hostname), (config.search, config.hostname));
        assert_eq!((parsed.congestion, parsed.host), (config.congestion, Some(HostAddress::Gateway)));
    }

    #[test]
    fn network_without_keys_needs_no_kernel_options() {
        assert!(kernel_options(&config("user")).is_empty());
        assert_eq!(device_properties(&config("user")), ",host_mtu=65520");
        let properties = device_properties(&config("user,mtu=1500,mac=52:54:00:00:00:01"));
        assert_eq!(properties, ",mac=52:54:00:00:00:01,host_mtu=1500");
    }

    #[test]
    fn congestion_control_is_for_the_kernel_alone() {
        assert_eq!(without_congestion("user,congestion=bbr,mtu=1500"), "user,mtu=1500");
        assert_eq!(without_congestion("user"), "user");
    }

    /// Makes a shell script that replaces uhyve. The script's third argument is the path of the socket. A
    /// separate process writes the script. If this process wrote it, a child of another test could inherit
    /// the open file, and the script could not be executed (`ETXTBSY`).
    fn script(folder: &TempDir, text: &str) -> PathBuf {
        let file = folder.path().join("uhyve");
        let write = "printf '#!/bin/sh\\n%s\\n' \"$1\" > \"$2\" && chmod 700 \"$2\"";
        let status = Command::new("sh").args(["-c", write, "sh", text]).arg(&file).status().unwrap();
        assert!(status.success());
        file
    }

    #[test]
    fn network_has_started_when_its_output_ends() {
        let folder = TempDir::new().unwrap();
        let serve = "exec >&-; while [ -e $3 ]; do sleep 0.01; done";
        let uhyve = script(&folder, &format!("echo \"$@\" > $(dirname $0)/arguments; touch $3; {serve}"));
        let ports = ["8080:80", "127.0.0.1:0:53/udp"].map(|text| text.parse().unwrap());
        let network =
            UserNetwork::start(&uhyve, Some("user,dns=1.1.1.1"), &ports, &["-q"], Stdio::null()).unwrap();
        let path = super::socket(&network.folder).display().to_string();
        assert!(network.qemu_options()[1].ends_with(&format!(",addr.path={path}")));
        let arguments = fs::read_to_string(folder.path().join("arguments")).unwrap();
        let options = "--net user,dns=1.1.1.1 -p 8080:80 -p 127.0.0.1:0:53/udp";
        assert_eq!(arguments, format!("net --socket {path} -q {options}\n"));
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn network_that_ends_before_it_listens_is_an_error() {
        let folder = TempDir::new().unwrap();
        let uhyve = script(&folder, "exit 125");
        let error =
            UserNetwork::start(&uhyve, Some("user"), &[], &[], Stdio::null()).unwrap_err().to_string();
        assert!(error.contains("125"), "{error}");
        let missing = folder.path().join("missing");
        assert!(UserNetwork::start(&missing, Some("user"), &[], &[], Stdio::null()).is_err());
        for net in [None, Some("none"), Some("tap=a")] {
            assert!(UserNetwork::start(&uhyve, net, &[], &[], Stdio::null()).is_err(), "{net:?}");
        }
    }
}
