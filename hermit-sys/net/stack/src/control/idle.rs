//! An interface of smoltcp's that sends and receives nothing.
//!
//! Queries take their random numbers from one, and it tells when a socket is due, which an interface that waits for routers
//! does not.

use alloc::vec::Vec;

use smoltcp::iface::{Config, Interface};
use smoltcp::phy::{DeviceCapabilities, Medium};
use smoltcp::wire::HardwareAddress;

use crate::core::instant;
use crate::wire::device::Ingress;

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

    /// Makes its next random numbers such that nobody can guess them from those before: smoltcp's generator is not made for
    /// that, and can be seeded at the start only.
    pub(crate) fn reseed(&mut self, seed: u64, now: u64) {
        *self = Self::new(seed, now);
    }

    pub(crate) const fn interface(&mut self) -> &mut Interface {
        &mut self.0
    }
}
