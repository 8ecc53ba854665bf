//! What the driver accepts, and how it lays out its memory.

use super::{
    ALL, CSUM, GUEST_CSUM, GUEST_TSO4, GUEST_TSO6, HOST_TSO4, HOST_TSO6, MAC, MRG_RXBUF, MTU, Nic, SMALL,
    STATUS,
};
use crate::device::InitError;
use crate::net::{BufferSizes, MAX_FRAME, Net, NetInfo, TsoSupport};
use crate::testing::{FakeDma, FakeTransport};
use crate::transport::TransportError;

/// What is accepted of these features.
fn accepted(features: u64) -> u64 {
    let nic = Nic::new(features, 256);
    let _net = nic.open(SMALL).unwrap();
    nic.model.lock().unwrap().accepted & !(1 << 32 | 1 << 29)
}

#[test]
fn features_are_accepted_with_what_they_need() {
    assert_eq!(accepted(ALL), ALL);
    assert_eq!(accepted(0), 0);
    for one in [CSUM, GUEST_CSUM, MTU, MAC, MRG_RXBUF, STATUS] {
        assert_eq!(accepted(one), one);
    }
    // Without the checksum no tso, and no large frames unless they may be in several buffers.
    for one in [HOST_TSO4, HOST_TSO6, GUEST_TSO4, GUEST_TSO6] {
        assert_eq!(accepted(one), 0);
    }
    assert_eq!(accepted(CSUM | HOST_TSO4), CSUM | HOST_TSO4);
    assert_eq!(accepted(CSUM | HOST_TSO6), CSUM | HOST_TSO6);
    assert_eq!(accepted(GUEST_CSUM | GUEST_TSO4 | GUEST_TSO6), GUEST_CSUM);
    assert_eq!(accepted(MRG_RXBUF | GUEST_TSO4), MRG_RXBUF);
    let all_received = GUEST_CSUM | MRG_RXBUF | GUEST_TSO4 | GUEST_TSO6;
    assert_eq!(accepted(all_received), all_received);
    // What the driver does not know: ECN, UFO, control queue, several queues, hashes.
    assert_eq!(accepted(ALL | 1 << 9 | 1 << 10 | 1 << 13 | 1 << 14 | 1 << 17 | 1 << 22 | 1 << 57), ALL);
}

#[test]
fn a_device_says_what_it_is() {
    let info = |features| Nic::new(features, 256).open(SMALL).unwrap().info();
    let nothing = NetInfo {
        mac: None,
        mtu: 1500,
        rx_checksum: false,
        tx_checksum: false,
        tso: TsoSupport::default(),
        link_up: true,
    };
    assert_eq!(info(0), nothing);
    assert_eq!(
        info(ALL),
        NetInfo {
            mac: Some([2, 3, 4, 5, 6, 7]),
            mtu: 1500,
            rx_checksum: true,
            tx_checksum: true,
            tso: TsoSupport { v4: true, v6: true },
            link_up: true,
        }
    );
    assert_eq!(info(CSUM), NetInfo { tx_checksum: true, ..nothing });
    assert_eq!(info(GUEST_CSUM), NetInfo { rx_checksum: true, ..nothing });
    let v6 = TsoSupport { v4: false, v6: true };
    assert_eq!(info(CSUM | HOST_TSO6), NetInfo { tx_checksum: true, tso: v6, ..nothing });
}

#[test]
fn configurations_count_only_with_their_feature() {
    let info = |features, place: usize, bytes: &[u8]| {
        let nic = Nic::new(features, 256);
        nic.model.lock().unwrap().config[place..place + bytes.len()].copy_from_slice(bytes);
        nic.open(SMALL).map(|net| net.info())
    };
    assert_eq!(info(MTU, 10, &[0, 32]).map(|info| info.mtu), Ok(8192));
    assert_eq!(info(0, 10, &[0, 32]).map(|info| info.mtu), Ok(1500));
    assert_eq!(info(MTU, 10, &[68, 0]).map(|info| info.mtu), Ok(68));
    assert_eq!(info(MTU, 10, &[67, 0]), Err(InitError::InvalidConfig));
    assert_eq!(info(STATUS, 6, &[0, 0]).map(|info| info.link_up), Ok(false));
    assert_eq!(info(STATUS, 6, &[2, 1]).map(|info| info.link_up), Ok(false));
    assert_eq!(info(0, 6, &[0, 0]).map(|info| info.link_up), Ok(true));
    // Addresses of groups, and of nobody.
    assert_eq!(info(MAC, 0, &[3, 0, 0, 0, 0, 1]).map(|info| info.mac), Ok(None));
    assert_eq!(info(MAC, 0, &[0xff; 6]).map(|info| info.mac), Ok(None));
    assert_eq!(info(MAC, 0, &[0; 6]).map(|info| info.mac), Ok(None));
    // A configuration that ends too early.
    for (features, length) in [(MAC, 5), (STATUS, 7), (MTU, 11)] {
        let nic = Nic::new(features, 256);
        nic.model.lock().unwrap().config.truncate(length);
        assert_eq!(nic.open(SMALL).unwrap_err(), InitError::InvalidConfig);
    }
    let nic = Nic::new(0, 256);
    nic.model.lock().unwrap().config.clear();
    assert!(nic.open(SMALL).is_ok());
}

#[test]
fn the_link_is_looked_at_when_the_configuration_changes() {
    let nic = Nic::new(ALL, 256);
    let mut net = nic.open(SMALL).unwrap();
    let set = |up, interrupt| {
        let mut model = nic.model.lock().unwrap();
        model.config[6] = up;
        model.interrupt_status = interrupt;
    };
    set(0, 1);
    assert_eq!((net.interrupt().map(|cause| cause.config), net.info().link_up), (Ok(false), true));
    set(0, 2);
    assert_eq!((net.interrupt().map(|cause| cause.config), net.info().link_up), (Ok(true), false));
    set(1, 0);
    assert_eq!((net.check_status(), net.info().link_up), (Ok(()), true));
    // One that changes all the time is what it was.
    nic.model.lock().unwrap().changes = u32::MAX;
    set(0, 2);
    assert_eq!((net.interrupt().map(|cause| cause.config), net.info().link_up), (Ok(true), true));
}

#[test]
fn an_interrupt_that_says_nothing_is_the_queues_if_they_worked() {
    let nic = Nic::new(ALL, 256);
    let dma = FakeDma::new(&nic.model.lock().unwrap().memory, 1000);
    let mut net = Net::new(FakeTransport::new(&nic.model, false), &dma, SMALL).unwrap();
    let interrupt = |net: &mut super::Driver| net.interrupt().map(|cause| (cause.queues, cause.config));
    assert_eq!(interrupt(&mut net), Ok((false, true)));
    assert!(nic.deliver(&super::frame(60, 1)));
    assert_eq!(interrupt(&mut net), Ok((true, false)));
    // Somebody was faster than the interrupt.
    assert!(super::receive(&mut net).is_some());
    assert_eq!(interrupt(&mut net), Ok((true, false)));
    assert_eq!(interrupt(&mut net), Ok((false, true)));
    // Frames that are done count if somebody waits for room.
    super::transmit(&mut net, &super::frame(60, 1)).unwrap();
    nic.sent();
    assert_eq!(interrupt(&mut net), Ok((false, true)));
    while net.can_transmit(MAX_FRAME) {
        super::transmit(&mut net, &super::frame(MAX_FRAME, 1)).unwrap();
    }
    nic.sent();
    assert_eq!(interrupt(&mut net), Ok((true, false)));
}

/// BufferSizes of the buffers that the device gets, and how many there are.
fn buffers(features: u64, mtu: u16, queue: u16, receive: usize) -> (u32, usize) {
    let nic = Nic::new(features, queue);
    nic.model.lock().unwrap().config[10..12].copy_from_slice(&mtu.to_le_bytes());
    let _net = nic.open(BufferSizes { receive, transmit: 0 }).unwrap();
    let mut model = nic.model.lock().unwrap();
    let chains: std::vec::Vec<_> = core::iter::from_fn(|| model.take(0)).collect();
    let sizes: std::collections::BTreeSet<_> = chains.iter().map(|chain| chain.parts[0].1).collect();
    assert!(sizes.len() == 1 && chains.iter().all(|chain| chain.parts.len() == 1));
    // One behind the other.
    assert!(
        chains
            .windows(2)
            .all(|pair| pair[1].parts[0].0 == pair[0].parts[0].0 + u64::from(pair[0].parts[0].1))
    );
    (chains[0].parts[0].1, chains.len())
}

#[test]
fn buffers_fill_the_arena() {
    assert_eq!(buffers(MRG_RXBUF, 0, 256, 0), (2048, 128));
    assert_eq!(buffers(MRG_RXBUF, 0, 256, 1 << 20), (4096, 256));
    assert_eq!(buffers(MRG_RXBUF, 0, 1024, 1 << 20), (2048, 512));
    assert_eq!(buffers(MRG_RXBUF, 0, 300, (1 << 20) - 5), (4096, 256));
    assert_eq!(buffers(MRG_RXBUF, 0, 4096, 4 << 20), (4096, 1024));
    // Without merging a frame needs a buffer that has room for all of it.
    assert_eq!(buffers(0, 0, 256, 1 << 20), (4096, 256));
    assert_eq!(buffers(MTU, 9000, 256, 1 << 20), (16_384, 64));
    assert_eq!(buffers(MTU, 65_535, 256, 0), (131_072, 2));
    assert_eq!(buffers(MTU | MRG_RXBUF, 65_535, 256, 0), (2048, 128));
    assert_eq!(buffers(MRG_RXBUF, 0, 2, 0), (131_072, 2));
}

#[test]
fn less_memory_will_do() {
    let open = |pages| {
        let nic = Nic::new(ALL, 256);
        let dma = FakeDma::new(&nic.model.lock().unwrap().memory, pages);
        Net::new(FakeTransport::new(&nic.model, true), &dma, BufferSizes::default()).map(|_| ())
    };
    // Two arenas of 64 pages, two queues of 2.
    let enough = (0..200).find(|pages| open(*pages).is_ok()).unwrap();
    assert!((130..=134).contains(&enough), "{enough}");
    for pages in (0..enough).step_by(7) {
        assert_eq!(open(pages), Err(InitError::OutOfMemory));
    }
    for pages in [enough, enough + 1, 200, 300, 400] {
        assert_eq!(open(pages), Ok(()));
    }
}

#[test]
fn queues_that_are_missing_or_too_short_are_refused() {
    let open = |queues: &[u16]| {
        let nic = Nic::new(ALL, 256);
        for (queue, size) in nic.model.lock().unwrap().queues.iter_mut().zip(queues) {
            queue.max = *size;
        }
        nic.open(SMALL).map(|_| ())
    };
    let none = InitError::Transport(TransportError::NoQueue);
    assert_eq!(open(&[0, 256]), Err(none));
    assert_eq!(open(&[256, 0]), Err(none));
    assert_eq!(open(&[256, 1]), Err(InitError::InvalidConfig));
    assert_eq!(open(&[1, 2]), Ok(()));
}
