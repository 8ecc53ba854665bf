//! Limits of bytes and requests per second.

use std::sync::atomic::Ordering::Relaxed;

use hermit_fuse::request::GetattrIn;
use hermit_fuse::{InHeader, Opcode, ROOT_NODE};
use zerocopy::IntoBytes;

use super::client::Client;
use crate::devices::rate_limiter::tests::simulated;
use crate::devices::virtio::VirtioDevice;

/// Size of a request for attributes in bytes, with its header.
const REQUEST_SIZE: u32 = 56;

#[test]
fn limited_mount_serves_requests_at_the_rate() {
    let mut client = Client::new();
    let (limiter, time) = simulated("", "10/2");
    client.files.device_mut().set_limiter(limiter);
    let header = InHeader {
        len: REQUEST_SIZE,
        opcode: Opcode::Getattr.number(),
        nodeid: ROOT_NODE,
        ..InHeader::default()
    };
    let request = [header.as_bytes(), GetattrIn::default().as_bytes()].concat();
    // Serving a queue again must not admit more requests.
    for (milliseconds, is_sent, is_served) in [
        (0, true, true),
        (0, true, true),
        (0, true, false),
        (99, false, false),
        (100, false, true),
        (199, true, false),
        (200, false, true),
    ] {
        time.store(milliseconds * 1_000_000, Relaxed);
        if is_sent {
            client.files.send(&request, 256);
        }
        assert_eq!(client.files.receive().is_some(), is_served, "{milliseconds}");
    }
    client.files.send(&request, 256);
    assert!(client.files.receive().is_none());
    let device = client.files.device_mut();
    assert!(device.host_event(1).is_some() && device.host_event(0).is_none(), "the timer of the limit");
    device.lift_limits();
    assert!(client.files.receive().is_some());
}
