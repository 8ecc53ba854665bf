//! Configuration of network devices by netlink (netlink(7), rtnetlink(7)).

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::net::{connect, netdevice, recv, send, socket_with};

/// `NLM_F_REQUEST | NLM_F_ACK`: a request with an acknowledgement.
const REQUEST: u16 = 0x1 | 0x4;

/// `NLM_F_CREATE | NLM_F_EXCL`.
const CREATE: u16 = 0x400 | 0x200;

/// `NLMSG_ERROR`: the type of an acknowledgement, with error 0 for success.
const ACK: u16 = 2;

/// `RTM_NEWLINK`.
const NEW_LINK: u16 = 16;

/// `RTM_NEWADDR`.
const NEW_ADDRESS: u16 = 20;

/// `AF_INET`.
const INET: u8 = 2;

/// `IFA_LOCAL`: the attribute with the address of an interface.
const LOCAL: u16 = 2;

/// `IFF_UP`.
const UP: u32 = 1;

/// The size of `struct nlmsghdr`.
const HEADER: usize = 16;

/// A netlink socket.
#[derive(Debug)]
pub(crate) struct Netlink {
    socket: OwnedFd,
}

impl Netlink {
    /// Opens a socket of the family `NETLINK_ROUTE`.
    pub(crate) fn new() -> io::Result<Self> {
        // Protocol 0 is `NETLINK_ROUTE`.
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        connect(&socket, &SocketAddrNetlink::new(0, 0))?;
        Ok(Self { socket })
    }

    /// Returns the index of the device with this name.
    pub(crate) fn index(&self, name: &str) -> io::Result<u32> {
        Ok(netdevice::name_to_index(&self.socket, name)?)
    }

    /// Sets a device up.
    pub(crate) fn set_up(&mut self, index: u32) -> io::Result<()> {
        self.request(NEW_LINK, 0, &link(index))
    }

    /// Adds an IPv4 address to a device.
    pub(crate) fn add_address(&mut self, index: u32, address: Ipv4Addr, prefix: u8) -> io::Result<()> {
        self.request(NEW_ADDRESS, CREATE, &interface_address(index, address, prefix))
    }

    /// Sends a request and waits for its acknowledgement.
    fn request(&mut self, kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
        send(&self.socket, &message(kind, REQUEST | flags, body), SendFlags::empty())?;
        let mut reply = [0; 1024];
        let (_, size) = recv(&self.socket, &mut reply, RecvFlags::empty())?;
        result(reply.get(..size).unwrap_or_default())
    }
}

/// Returns a message: `struct nlmsghdr` and a body.
fn message(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(HEADER + body.len()).unwrap_or(u32::MAX);
    let [number, port] = [[0; 4]; 2];
    let header = [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), &flags.to_ne_bytes(), &number, &port];
    [header.concat().as_slice(), body].concat()
}

/// Returns a `struct ifinfomsg` that sets `IFF_UP` and changes no other flag.
fn link(index: u32) -> Vec<u8> {
    [[0; 4], index.to_ne_bytes(), UP.to_ne_bytes(), UP.to_ne_bytes()].concat()
}

/// Returns a `struct ifaddrmsg` with the attribute `IFA_LOCAL`.
fn interface_address(index: u32, address: Ipv4Addr, prefix: u8) -> Vec<u8> {
    let attribute_size: u16 = 8;
    let [flags, scope] = [0; 2];
    let attribute = [attribute_size.to_ne_bytes(), LOCAL.to_ne_bytes()].concat();
    [&[INET, prefix, flags, scope][..], &index.to_ne_bytes(), &attribute, &address.octets()].concat()
}

/// Parses an acknowledgement: a header, and a number that is zero or a negative errno.
fn result(reply: &[u8]) -> io::Result<()> {
    let invalid = || io::Error::other("the kernel's reply is no acknowledgement");
    let kind = reply.get(4..6).ok_or_else(invalid)?;
    let number = reply.get(HEADER..).and_then(|rest| rest.first_chunk()).ok_or_else(invalid)?;
    match i32::from_ne_bytes(*number) {
        _ if kind != ACK.to_ne_bytes() => Err(invalid()),
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(-error)),
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::net::Ipv4Addr;

    use super::{Netlink, interface_address, message, result};

    #[test]
    fn message_has_the_length_of_its_header() {
        let body = interface_address(7, Ipv4Addr::new(10, 0, 0, 2), 24);
        let bytes = message(20, 5, &body);
        assert_eq!(bytes.len(), 16 + 8 + 8);
        assert_eq!(bytes[..8], [32, 0, 0, 0, 20, 0, 5, 0]);
        assert_eq!(bytes[16..], [2, 24, 0, 0, 7, 0, 0, 0, 8, 0, 2, 0, 10, 0, 0, 2]);
    }

    #[test]
    fn kernel_acknowledges_requests() {
        let mut netlink = Netlink::new().unwrap();
        assert!(netlink.index("lo").unwrap() > 0);
        assert!(netlink.index("no-such-device").is_err());
        // No device has this index, so it fails with and without privileges.
        assert!(netlink.set_up(u32::MAX >> 1).is_err());
    }

    #[test]
    fn result_is_parsed_from_an_acknowledgement() {
        let answer = |kind, error: i32| message(kind, 0, &error.to_ne_bytes());
        assert!(result(&answer(2, 0)).is_ok());
        assert_eq!(result(&answer(2, -1)).unwrap_err().kind(), ErrorKind::PermissionDenied);
        assert!(result(&answer(3, 0)).is_err());
        assert!(result(&[]).is_err());
    }
}
