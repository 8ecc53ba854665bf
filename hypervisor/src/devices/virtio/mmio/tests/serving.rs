//! What a running device does with its queues.

use vm_memory::{Bytes, GuestAddress};

use super::{ACKNOWLEDGE, DRIVER, DRIVER_OK, FEATURES_OK, Machine, NEEDS_RESET, STATUS};
use crate::devices::virtio::Served;
use crate::devices::virtio::mmio::Round;
use crate::devices::virtio::testing::{BUFFERS, Driver};

/// A few chains of this many bytes are enough work for once.
const MUCH: u32 = 0x2_0000;

#[test]
fn chains_come_back_with_an_interrupt() {
    let mut machine = Machine::running();
    assert_eq!(machine.registers.serve(0), Round::IDLE);
    assert_eq!(machine.interrupts(), 0);
    let head = machine.driver.send(&[(BUFFERS, 4, false)]);
    assert_eq!(machine.registers.serve(0), Round { served: Served::All, interrupt: true });
    assert_eq!(machine.driver.used(), [(head.into(), 0)]);
    assert_eq!(machine.interrupts(), 1);
    machine.registers.interrupts().acknowledge(1);
    assert_eq!(machine.interrupts(), 0);
}

#[test]
fn an_interrupt_comes_when_the_driver_wants_one() {
    let mut machine = Machine::running();
    // Not before the third chain.
    machine.driver.set_used_event(2);
    let serve = |machine: &mut Machine| {
        machine.driver.send(&[(BUFFERS, 1, false)]);
        machine.registers.serve(0).interrupt
    };
    assert_eq!([0; 4].map(|_| serve(&mut machine)), [false, false, true, false]);
}

#[test]
fn notifications_are_wanted_from_the_next_chain_on() {
    let mut machine = Machine::running();
    for count in 1..40 {
        machine.driver.send(&[(BUFFERS, 1, false)]);
        machine.registers.serve(0);
        assert_eq!(machine.driver.avail_event(), count);
    }
}

#[test]
fn without_event_indices_notifications_are_off_while_the_device_works() {
    let mut machine = Machine::at(ACKNOWLEDGE | DRIVER);
    machine.accept(1 << 32);
    machine.write(STATUS, ACKNOWLEDGE | DRIVER | FEATURES_OK);
    machine.set_up(0);
    machine.write(STATUS, ACKNOWLEDGE | DRIVER | FEATURES_OK | DRIVER_OK);
    for _ in 0..16 {
        machine.driver.send(&[(BUFFERS, MUCH, false)]);
    }
    // It stops in between, for others to have their turn.
    assert_eq!(machine.registers.serve(0), Round { served: Served::Partly, interrupt: true });
    assert_eq!(machine.driver.used_flags(), 1);
    while machine.registers.serve(0).served == Served::Partly {}
    assert_eq!(machine.driver.used_flags(), 0);
    assert_eq!(machine.driver.used().len(), 16);
}

#[test]
fn a_driver_that_breaks_the_rules_loses_the_device_until_it_resets_it() {
    for (name, driver) in Driver::hostile(16) {
        let mut machine = Machine::running();
        // Same layout, other memory.
        machine.driver.memory.write_slice(&driver.bytes(0, 0x2_0000), GuestAddress(0)).unwrap();
        let status = machine.read(STATUS);
        assert_eq!(machine.registers.serve(0), Round { served: Served::All, interrupt: true }, "{name}");
        assert_eq!(machine.read(STATUS), status | NEEDS_RESET);
        assert_eq!(machine.interrupts(), 2);
        machine.log();
        assert_eq!(machine.registers.serve(0), Round::IDLE);
        machine.write(STATUS, status);
        assert_eq!(machine.read(STATUS), status | NEEDS_RESET);
        assert!(machine.log().is_empty());
        machine.write(STATUS, 0);
        assert_eq!(machine.read(STATUS), 0);
    }
}
