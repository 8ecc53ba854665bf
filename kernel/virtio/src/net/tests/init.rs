//! Feature negotiation, configuration, and memory layout.

use super::{
    ALL_FEATURES, CSUM, GUEST_CSUM, GUEST_TSO4, GUEST_TSO6, HOST_TSO4, HOST_TSO6, MAC, MIN_SIZES, MRG_RXBUF,
    MTU, Nic, SIZE, STATUS,
};
use crate::device::InitError;
use crate::net::{BufferSizes, MAX_FRAME, NetDriver, NetInfo, TsoSupport};
use crate::testing::{FakeDma, FakeTransport};
use crate::transport::TransportError;

/// Features that the driver accepts if these are offered.
fn accepted(features: u64) -> u64 {
    let nic = Nic::new(features, SIZE);
    let _net = nic.open(MIN_SIZES).unwrap();
    nic.model.lock().unwrap().accepted & !(1 << 32 | 1 << 29)
}

#[test]
fn features_are_accepted_only_with_their_dependencies() {
    assert_eq!(accepted(ALL_FEATURES), ALL_FEATURES);
    assert_eq!(accepted(0), 0);
    for one in [CSUM, GUEST_CSUM, MTU, MAC, MRG_RXBUF, STATUS] {
        assert_eq!(accepted(one), one);
    }
    // No segmentation without checksums, and no large received frames without mergeable buffers.
    for one in [HOST_TSO4, HOST_TSO6, GUEST_TSO4, GUEST_TSO6] {
        assert_eq!(accepted(one), 0);
    }
    assert_eq!(accepted(CSUM | HOST_TSO4), CSUM | HOST_TSO4);
    assert_eq!(accepted(CSUM | HOST_TSO6), CSUM | HOST_TSO6);
    assert_eq!(accepted(GUEST_CSUM | GUEST_TSO4 | GUEST_TSO6), GUEST_CSUM);
    assert_eq!(accepted(MRG_RXBUF | GUEST_TSO4), MRG_RXBUF);
    let all_received = GUEST_CSUM | MRG_RXBUF | GUEST_TSO4 | GUEST_TSO6;
    assert_eq!(accepted(all_received), all_received);
    // Unsupported: ECN, UFO, control queue, several queue pairs, hash reports.
    assert_eq!(
        accepted(ALL_FEATURES | 1 << 9 | 1 << 10 | 1 << 13 | 1 << 14 | 1 << 17 | 1 << 22 | 1 << 57),
        ALL_FEATURES
    );
}

#[test]
fn info_reflects_features_and_config() {
    let info = |features| Nic::new(features, SIZE).open(MIN_SIZES).unwrap().info();
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
        info(ALL_FEATURES),
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
fn config_fields_are_valid_only_with_their_feature() {
    let info = |features, offset: usize, bytes: &[u8]| {
        let nic = Nic::new(features, SIZE);
        nic.model.lock().unwrap().config[offset..offset + bytes.len()].copy_from_slice(bytes);
        nic.open(MIN_SIZES).map(|net| net.info())
    };
    assert_eq!(info(MTU, 10, &[0, 32]).map(|info| info.mtu), Ok(8192));
    assert_eq!(info(0, 10, &[0, 32]).map(|info| info.mtu), Ok(1500));
    assert_eq!(info(MTU, 10, &[68, 0]).map(|info| info.mtu), Ok(68));
    assert_eq!(info(MTU, 10, &[67, 0]), Err(InitError::InvalidConfig));
    assert_eq!(info(STATUS, 6, &[0, 0]).map(|info| info.link_up), Ok(false));
    assert_eq!(info(STATUS, 6, &[2, 1]).map(|info| info.link_up), Ok(false));
    assert_eq!(info(0, 6, &[0, 0]).map(|info| info.link_up), Ok(true));
    // Group addresses, and the zero address.
    assert_eq!(info(MAC, 0, &[3, 0, 0, 0, 0, 1]).map(|info| info.mac), Ok(None));
    assert_eq!(info(MAC, 0, &[0xff; 6]).map(|info| info.mac), Ok(None));
    assert_eq!(info(MAC, 0, &[0; 6]).map(|info| info.mac), Ok(None));
    // Truncated configurations.
    for (features, length) in [(MAC, 5), (STATUS, 7), (MTU, 11)] {
        let nic = Nic::new(features, SIZE);
        nic.model.lock().unwrap().config.truncate(length);
        assert_eq!(nic.open(MIN_SIZES).unwrap_err(), InitError::InvalidConfig);
    }
    let nic = Nic::new(0, SIZE);
    nic.model.lock().unwrap().config.clear();
    assert!(nic.open(MIN_SIZES).is_ok());
}

#[test]
fn link_is_read_again_on_config_change() {
    let nic = Nic::new(ALL_FEATURES, 256);
    let mut net = nic.open(MIN_SIZES).unwrap();
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
    // A configuration that never stops changing leaves the link's state as it was.
    nic.model.lock().unwrap().changes = u32::MAX;
    set(0, 2);
    assert_eq!((net.interrupt().map(|cause| cause.config), net.info().link_up), (Ok(true), true));
}

#[test]
fn interrupt_without_cause_is_attributed_to_used_queues() {
    let nic = Nic::new(ALL_FEATURES, 256);
    let dma = FakeDma::new(&nic.model.lock().unwrap().memory, 1000);
    let mut net = NetDriver::new(FakeTransport::new(&nic.model, false), &dma, MIN_SIZES).unwrap();
    let interrupt = |net: &mut super::Driver| net.interrupt().map(|cause| (cause.queues, cause.config));
    assert_eq!(interrupt(&mut net), Ok((false, true)));
    assert!(nic.deliver(&super::frame(60, 1)));
    assert_eq!(interrupt(&mut net), Ok((true, false)));
    // The frame is received before the interrupt is handled.
    assert!(super::receive(&mut net).is_some());
    assert_eq!(interrupt(&mut net), Ok((true, false)));
    assert_eq!(interrupt(&mut net), Ok((false, true)));
    // Used TX frames count if the interrupt is armed.
    super::transmit(&mut net, &super::frame(60, 1)).unwrap();
    nic.transmit_all();
    assert_eq!(interrupt(&mut net), Ok((false, true)));
    while net.can_transmit(MAX_FRAME) {
        super::transmit(&mut net, &super::frame(MAX_FRAME, 1)).unwrap();
    }
    nic.transmit_all();
    assert_eq!(interrupt(&mut net), Ok((true, false)));
}

/// Size and number of the buffers that the driver posts.
fn buffers(features: u64, mtu: u16, queue: u16, receive: usize) -> (u32, usize) {
    let nic = Nic::new(features, queue);
    nic.model.lock().unwrap().config[10..12].copy_from_slice(&mtu.to_le_bytes());
    let _net = nic.open(BufferSizes { rx: receive, tx: 0 }).unwrap();
    let mut model = nic.model.lock().unwrap();
    let chains: std::vec::Vec<_> = core::iter::from_fn(|| model.take(0)).collect();
    let sizes: std::collections::BTreeSet<_> = chains.iter().map(|chain| chain.parts[0].1).collect();
    assert!(sizes.len() == 1 && chains.iter().all(|chain| chain.parts.len() == 1));
    // Adjacent, in order of address.
    assert!(
        chains
            .windows(2)
            .all(|pair| pair[1].parts[0].0 == pair[0].parts[0].0 + u64::from(pair[0].parts[0].1))
    );
    (chains[0].parts[0].1, chains.len())
}

#[test]
fn rx_buffers_fill_the_memory() {
    assert_eq!(buffers(MRG_RXBUF, 0, 256, 0), (2048, 128));
    assert_eq!(buffers(MRG_RXBUF, 0, 256, 1 << 20), (4096, 256));
    assert_eq!(buffers(MRG_RXBUF, 0, 1024, 1 << 20), (2048, 512));
    assert_eq!(buffers(MRG_RXBUF, 0, 300, (1 << 20) - 5), (4096, 256));
    assert_eq!(buffers(MRG_RXBUF, 0, 4096, 4 << 20), (4096, 1024));
    // Without mergeable buffers, each buffer holds a frame of maximum size.
    assert_eq!(buffers(0, 0, 256, 1 << 20), (4096, 256));
    assert_eq!(buffers(MTU, 9000, 256, 1 << 20), (16_384, 64));
    assert_eq!(buffers(MTU, 65_535, 256, 0), (131_072, 2));
    assert_eq!(buffers(MTU | MRG_RXBUF, 65_535, 256, 0), (2048, 128));
    assert_eq!(buffers(MRG_RXBUF, 0, 2, 0), (131_072, 2));
}

#[test]
fn buffers_shrink_until_allocation_succeeds() {
    let open = |pages| {
        let nic = Nic::new(ALL_FEATURES, 256);
        let dma = FakeDma::new(&nic.model.lock().unwrap().memory, pages);
        NetDriver::new(FakeTransport::new(&nic.model, true), &dma, BufferSizes::default()).map(|_| ())
    };
    // Two pieces of 64 pages, two virtqueues of 2.
    let min_pages = (if cfg!(miri) { 129 } else { 0 }..200).find(|pages| open(*pages).is_ok()).unwrap();
    assert!((130..=134).contains(&min_pages), "{min_pages}");
    for pages in (0..min_pages).step_by(if cfg!(miri) { 43 } else { 7 }) {
        assert_eq!(open(pages), Err(InitError::OutOfMemory));
    }
    for pages in [min_pages, 400, min_pages + 1, 200, 300].into_iter().take(if cfg!(miri) { 2 } else { 5 }) {
        assert_eq!(open(pages), Ok(()));
    }
}

#[test]
fn missing_or_short_queues_are_refused() {
    let open = |queues: &[u16]| {
        let nic = Nic::new(ALL_FEATURES, 256);
        for (queue, size) in nic.model.lock().unwrap().queues.iter_mut().zip(queues) {
            queue.max_size = *size;
        }
        nic.open(MIN_SIZES).map(|_| ())
    };
    let no_queue = InitError::Transport(TransportError::NoQueue);
    assert_eq!(open(&[0, 256]), Err(no_queue));
    assert_eq!(open(&[256, 0]), Err(no_queue));
    assert_eq!(open(&[256, 1]), Err(InitError::InvalidConfig));
    assert_eq!(open(&[1, 2]), Ok(()));
}
