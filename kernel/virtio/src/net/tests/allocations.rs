//! Transfers do not allocate.

use allocation_counter::measure;

use super::{ALL_FEATURES, MIN_SIZES, Nic, frame, receive_with, transmit};

#[test]
fn transfers_do_not_allocate() {
    let nic = Nic::new(ALL_FEATURES, 256);
    let mut net = nic.open(MIN_SIZES).unwrap();
    let (small, large) = (frame(1514, 2), frame(60_000, 1));
    for _ in 0..if cfg!(miri) { 1 } else { 300 } {
        while nic.deliver(&small) {}
        nic.model.lock().unwrap().memory.make_room_for_events();
        let driver = measure(|| {
            assert_eq!(net.set_rx_interrupt(true), Ok(true));
            assert!(net.interrupt().is_ok());
            while receive_with(&mut net, |frame, _| assert!(!frame.is_empty())).unwrap().is_some() {}
            while net.can_transmit(large.len()) {
                transmit(&mut net, &large).unwrap();
            }
            net.notify();
            assert_eq!(net.set_rx_interrupt(true), Ok(false));
        });
        assert_eq!(driver.count_total, 0);
        nic.transmit_all();
    }
    // The counter counts.
    assert_eq!(measure(|| drop(std::hint::black_box(std::boxed::Box::new(1)))).count_total, 1);
}
