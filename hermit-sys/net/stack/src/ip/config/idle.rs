//! An interface of smoltcp without traffic. It is used to compute the deadlines of sockets, because an
//! interface that solicits routers does not report deadlines.

use alloc::vec::Vec;

use smoltcp::iface::{Config, Interface};
use smoltcp::phy::{DeviceCapabilities, Medium};
use smoltcp::wire::HardwareAddress;

use crate::wire::smoltcp_device::{Ingress, instant};

/// The interface.
pub(crate) struct Idle(Interface);

impl Idle {
    pub(crate) fn new(seed: u64, now: u64) -> Self {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = usize::from(u16::MAX);
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = seed;
        let mut nothing = Ingress { packet: None, reply: &mut Vec::new(), capabilities: &capabilities };
        Self(Interface::new(config, &mut nothing, instant(now)))
    }

    pub(crate) const fn interface(&mut self) -> &mut Interface {
        &mut self.0
    }
}
