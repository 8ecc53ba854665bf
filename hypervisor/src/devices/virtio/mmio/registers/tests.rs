//! Tests of the registers, and of each step of the initialisation.

mod processing;
mod queues;

use std::sync::{Arc, Mutex};

use proptest::collection::vec;
use proptest::prelude::*;

use super::{MmioRegisters, ServeOutcome};
use crate::devices::virtio::MmioTransport;
use crate::devices::virtio::test_utils::{BUFFERS, EchoDevice, TestDriver};

/// Offsets of registers (virtio 1.2 §4.2.2).
const MAGIC: u64 = 0x000;
const VERSION: u64 = 0x004;
const DEVICE: u64 = 0x008;
const VENDOR: u64 = 0x00c;
const OFFERED: u64 = 0x010;
const OFFERED_SELECT: u64 = 0x014;
const ACCEPTED: u64 = 0x020;
const ACCEPTED_SELECT: u64 = 0x024;
const QUEUE_SELECT: u64 = 0x030;
const QUEUE_MAX: u64 = 0x034;
const QUEUE_SIZE: u64 = 0x038;
const QUEUE_READY: u64 = 0x044;
const INTERRUPTS: u64 = 0x060;
const STATUS: u64 = 0x070;
const DESCRIPTORS: u64 = 0x080;
const AVAILABLE: u64 = 0x090;
const USED: u64 = 0x0a0;
const GENERATION: u64 = 0x0fc;
const CONFIG: u64 = 0x100;

/// Bits of `Status` (virtio 1.2 §2.1).
const ACKNOWLEDGE: u32 = 1;
const DRIVER: u32 = 2;
const DRIVER_OK: u32 = 4;
const FEATURES_OK: u32 = 8;
const NEEDS_RESET: u32 = 64;
const FAILED: u32 = 128;

/// Features that [`EchoDevice`] offers (bits 3 and 40), and those that every device offers.
const FEATURES: u64 = 1 << 3 | 1 << 28 | 1 << 29 | 1 << 32 | 1 << 40;

#[derive(Debug)]
struct Harness {
    registers: MmioRegisters,
    driver: TestDriver,
    log: Arc<Mutex<Vec<String>>>,
}

impl Harness {
    fn new() -> Self {
        let (driver, device) = (TestDriver::new(16), EchoDevice::default());
        let log = Arc::clone(&device.log);
        let registers = MmioRegisters::new(Box::new(device), driver.memory.clone()).unwrap();
        Self { registers, driver, log }
    }

    /// Device that the driver has initialised up to `status`.
    fn at(status: u32) -> Self {
        let mut harness = Self::new();
        for step in [ACKNOWLEDGE, DRIVER, FEATURES_OK, DRIVER_OK] {
            if status & step == 0 {
                break;
            }
            match step {
                FEATURES_OK => harness.accept(FEATURES),
                DRIVER_OK => harness.set_up(0),
                _ => {}
            }
            let status = harness.read(STATUS);
            harness.write(STATUS, status | step);
        }
        assert_eq!(harness.read(STATUS), status);
        harness
    }

    fn running() -> Self {
        let harness = Self::at(ACKNOWLEDGE | DRIVER | FEATURES_OK | DRIVER_OK);
        assert!(harness.registers.is_running());
        harness
    }

    fn read(&self, register: u64) -> u32 {
        let mut word = [0x55; 4];
        self.registers.read(register, &mut word);
        u32::from_le_bytes(word)
    }

    fn write(&mut self, register: u64, value: u32) {
        self.registers.write(register, &value.to_le_bytes());
    }

    fn write_wide(&mut self, register: u64, value: u64) {
        let (low, high) = super::features::halves(value);
        self.write(register, low);
        self.write(register + 4, high);
    }

    fn accept(&mut self, features: u64) {
        let (low, high) = super::features::halves(features);
        for (page, value) in [(0, low), (1, high)] {
            self.write(ACCEPTED_SELECT, page);
            self.write(ACCEPTED, value);
        }
    }

    /// Writes the addresses of a queue's parts, and 1 to `QueueReady`.
    fn make_ready(&mut self, [descriptors, available, used]: [u64; 3]) {
        self.write_wide(DESCRIPTORS, descriptors);
        self.write_wide(AVAILABLE, available);
        self.write_wide(USED, used);
        self.write(QUEUE_READY, 1);
    }

    fn set_up(&mut self, queue: u32) {
        self.write(QUEUE_SELECT, queue);
        self.make_ready(TestDriver::addresses());
        assert_eq!(self.read(QUEUE_READY), 1);
    }

    fn log(&self) -> Vec<String> {
        std::mem::take(&mut *self.log.lock().unwrap())
    }

    fn interrupts(&self) -> u32 {
        self.registers.interrupts().read()
    }
}

#[test]
fn identification_registers_are_readable_after_reset() {
    let harness = Harness::new();
    assert_eq!(harness.read(MAGIC), 0x7472_6976);
    assert_eq!(harness.read(VERSION), 2);
    assert_eq!(harness.read(DEVICE), 42);
    assert_eq!(harness.read(VENDOR).to_le_bytes(), *b"uhyv");
    assert_eq!(harness.read(STATUS), 0);
    assert_eq!(harness.read(GENERATION), 0);
    // Without shared memory, length and base are -1 (virtio 1.2 §4.2.2).
    assert!([0xb0, 0xb4, 0xb8, 0xbc].iter().all(|&register| harness.read(register) == u32::MAX));
}

#[test]
fn write_only_and_unknown_registers_read_as_zero() {
    let harness = Harness::running();
    for register in (0..CONFIG).step_by(4) {
        let readable = [MAGIC, VERSION, DEVICE, VENDOR, OFFERED, QUEUE_MAX, QUEUE_READY, STATUS];
        if !readable.contains(&register) && !(0xb0..0xc0).contains(&register) {
            assert_eq!(harness.read(register), 0, "{register:#x}");
        }
    }
}

#[test]
fn accesses_of_other_widths_are_ignored() {
    let mut harness = Harness::new();
    for length in [0, 1, 2, 3, 5, 8, 16] {
        let mut data = vec![0x55; length];
        harness.registers.read(MAGIC, &mut data);
        assert_eq!(data, vec![0; length]);
        harness.registers.write(STATUS, &vec![1; length]);
        assert_eq!(harness.read(STATUS), 0);
    }
    assert_eq!(harness.read(MAGIC + 2), 0);
    harness.write(STATUS - 1, 0x100);
    assert_eq!(harness.read(STATUS), 0);
}

#[test]
fn configuration_space_has_any_access_width() {
    let mut harness = Harness::new();
    let read = |offset, length| {
        let mut data = vec![0x55; length];
        harness.registers.read(offset, &mut data);
        data
    };
    assert_eq!(read(CONFIG, 13), b"configuration");
    assert_eq!(read(CONFIG + 3, 1), b"f");
    assert_eq!(read(CONFIG + 12, 4), b"n\0\0\0");
    assert_eq!(read(u64::MAX, 3), [0; 3]);
    harness.registers.write(CONFIG + 5, &[1, 2, 3]);
    assert_eq!(harness.log(), ["config 5 [1, 2, 3]"]);
}

#[test]
fn features_are_offered_in_pages() {
    let mut harness = Harness::new();
    let mut page = |number| {
        harness.write(OFFERED_SELECT, number);
        harness.read(OFFERED)
    };
    assert_eq!(u64::from(page(0)), FEATURES & 0xffff_ffff);
    assert_eq!(u64::from(page(1)), FEATURES >> 32);
    assert_eq!([page(2), page(3), page(u32::MAX)], [0; 3]);
}

#[test]
fn features_ok_requires_offered_features_and_version_1() {
    let cases = [
        (FEATURES, true),
        (1 << 32, true),
        // Without VERSION_1; with a feature that is not offered, in either page.
        (FEATURES & !(1 << 32), false),
        (0, false),
        (FEATURES | 1, false),
        (FEATURES | 1 << 63, false),
    ];
    for (features, is_valid) in cases {
        let mut harness = Harness::at(ACKNOWLEDGE | DRIVER);
        harness.accept(features);
        harness.write(STATUS, ACKNOWLEDGE | DRIVER | FEATURES_OK);
        assert_eq!(harness.read(STATUS) & FEATURES_OK != 0, is_valid, "{features:#x}");
    }
}

#[test]
fn features_above_bit_63_are_not_acceptable() {
    for (value, is_valid) in [(0, true), (1, false)] {
        let mut harness = Harness::at(ACKNOWLEDGE | DRIVER);
        harness.accept(FEATURES);
        harness.write(ACCEPTED_SELECT, 2);
        harness.write(ACCEPTED, value);
        harness.write(STATUS, ACKNOWLEDGE | DRIVER | FEATURES_OK);
        assert_eq!(harness.read(STATUS) & FEATURES_OK != 0, is_valid);
    }
}

#[test]
fn features_are_accepted_between_driver_and_features_ok_only() {
    // Too early: nothing is accepted, so VERSION_1 is missing.
    let mut harness = Harness::at(ACKNOWLEDGE);
    harness.accept(FEATURES);
    harness.write(STATUS, ACKNOWLEDGE | DRIVER);
    harness.write(STATUS, ACKNOWLEDGE | DRIVER | FEATURES_OK);
    assert_eq!(harness.read(STATUS), ACKNOWLEDGE | DRIVER);
    // Too late: the accepted features do not change.
    let mut harness = Harness::at(ACKNOWLEDGE | DRIVER | FEATURES_OK);
    harness.accept(1 << 32);
    harness.write(STATUS, ACKNOWLEDGE | DRIVER | FEATURES_OK | DRIVER_OK);
    assert_eq!(harness.log(), [format!("activate {FEATURES:#x}")]);
}

#[test]
fn status_bits_are_set_in_order() {
    let mut harness = Harness::new();
    for (written, expected) in [
        (DRIVER, 0),
        (FEATURES_OK | DRIVER_OK, 0),
        (ACKNOWLEDGE, ACKNOWLEDGE),
        (ACKNOWLEDGE | DRIVER_OK, ACKNOWLEDGE),
        // An undefined bit.
        (ACKNOWLEDGE | 0x10, ACKNOWLEDGE),
        (ACKNOWLEDGE | DRIVER, ACKNOWLEDGE | DRIVER),
        // A driver does not clear single bits.
        (DRIVER, ACKNOWLEDGE | DRIVER),
        // A driver does not set DEVICE_NEEDS_RESET.
        (ACKNOWLEDGE | DRIVER | NEEDS_RESET, ACKNOWLEDGE | DRIVER),
        (ACKNOWLEDGE | DRIVER | DRIVER_OK, ACKNOWLEDGE | DRIVER),
        (0, 0),
        // Two bits at a time.
        (ACKNOWLEDGE | DRIVER, ACKNOWLEDGE | DRIVER),
    ] {
        harness.write(STATUS, written);
        assert_eq!(harness.read(STATUS), expected, "{written:#x}");
    }
}

#[test]
fn failed_bit_stops_the_device() {
    let mut harness = Harness::at(ACKNOWLEDGE | DRIVER | FEATURES_OK);
    harness.write(STATUS, ACKNOWLEDGE | DRIVER | FEATURES_OK | FAILED);
    let status = harness.read(STATUS);
    assert_eq!(status, ACKNOWLEDGE | DRIVER | FEATURES_OK | FAILED);
    harness.write(STATUS, status | DRIVER_OK);
    assert_eq!(harness.read(STATUS), status);
    let mut harness = Harness::running();
    harness.write(STATUS, harness.read(STATUS) | FAILED);
    assert!(!harness.registers.is_running());
    assert_eq!(harness.registers.serve(0), ServeOutcome::IDLE);
    assert!(!harness.log().contains(&"process 0".to_owned()));
}

#[test]
fn reset_restores_the_initial_state() {
    let mut harness = Harness::running();
    harness.driver.send(&[(BUFFERS, 1, false)]);
    assert!(harness.registers.serve(0).needs_interrupt);
    assert_eq!(harness.interrupts(), 1);
    harness.log();
    harness.write(STATUS, 0);
    assert_eq!(harness.log(), ["reset"]);
    assert_eq!(harness.interrupts(), 0);
    assert_eq!([harness.read(STATUS), harness.read(QUEUE_READY), harness.read(INTERRUPTS)], [0; 3]);
    assert_eq!(harness.registers.serve(0), ServeOutcome::IDLE);
    // The accepted features and the addresses are cleared.
    harness.write(STATUS, ACKNOWLEDGE | DRIVER);
    harness.write(STATUS, ACKNOWLEDGE | DRIVER | FEATURES_OK);
    assert_eq!(harness.read(STATUS), ACKNOWLEDGE | DRIVER);
    harness.accept(FEATURES);
    harness.write(STATUS, ACKNOWLEDGE | DRIVER | FEATURES_OK);
    // The ring indices are cleared: the chain in the available ring is taken again.
    harness.set_up(0);
    harness.write(STATUS, ACKNOWLEDGE | DRIVER | FEATURES_OK | DRIVER_OK);
    assert!(harness.registers.serve(0).needs_interrupt);
}

proptest! {
    #[test]
    fn device_can_be_reset_after_arbitrary_accesses(
        accesses in vec((0..MmioTransport::SIZE, vec(any::<u8>(), 0..9), any::<bool>(), 0usize..4), 0..200)
    ) {
        let mut harness = Harness::new();
        for (offset, mut data, reads, queue) in accesses {
            if reads {
                harness.registers.read(offset, &mut data);
            } else {
                harness.registers.write(offset, &data);
            }
            harness.registers.serve(queue);
        }
                harness.write(STATUS, 0);
        prop_assert_eq!(harness.read(STATUS), 0);
        harness.write(STATUS, ACKNOWLEDGE | DRIVER);
        harness.accept(FEATURES);
        harness.write(STATUS, ACKNOWLEDGE | DRIVER | FEATURES_OK);
        harness.set_up(0);
        harness.write(STATUS, ACKNOWLEDGE | DRIVER | FEATURES_OK | DRIVER_OK);
        prop_assert!(harness.registers.is_running());
    }
}
