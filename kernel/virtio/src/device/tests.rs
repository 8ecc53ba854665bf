//! Initialization, failure and reset of devices, correct and defective ones.

use virtio_spec::{DeviceStatus, F, Id};

use super::{Device, DeviceError, InitError};
use crate::console::ConsoleDriver;
use crate::testing::{DeviceEvent, DeviceModel, FakeDma, FakeTransport, SharedDevice};
use crate::transport::{InterruptCause, TransportError};

const ALL_STATUS_BITS: u8 = 15;

fn console() -> SharedDevice {
    DeviceModel::new(3, 0, &[64, 64])
}

fn start(model: &SharedDevice) -> Result<Device<FakeTransport>, InitError> {
    Device::start(FakeTransport::new(model, true), &dma(model), Id::Console, F::empty())
}

fn dma(model: &SharedDevice) -> FakeDma {
    FakeDma::new(&model.lock().unwrap().memory, 0)
}

fn open(
    model: &SharedDevice,
    pages: usize,
) -> Result<ConsoleDriver<FakeTransport, crate::testing::FakeMemory>, InitError> {
    let dma = FakeDma::new(&model.lock().unwrap().memory, pages);
    ConsoleDriver::new(FakeTransport::new(model, true), &dma)
}

#[test]
fn device_status_is_set_in_order_and_reset_on_drop() {
    let model = console();
    let console = open(&model, 100).unwrap();
    let mut events = model.lock().unwrap().memory.events();
    events.retain(|event| matches!(event, DeviceEvent::Status(_)));
    assert_eq!(events, [0, 1, 3, 11, ALL_STATUS_BITS].map(DeviceEvent::Status));
    drop(console);
    let events = model.lock().unwrap().memory.events();
    // The device is reset before its memory is freed: two virtqueues, two sets of buffers.
    assert_eq!(
        events,
        [
            DeviceEvent::Status(0),
            DeviceEvent::Freed,
            DeviceEvent::Freed,
            DeviceEvent::Freed,
            DeviceEvent::Freed
        ]
    );
}

#[test]
fn initialization_fails_without_memory_for_any_of_its_values() {
    for shares in 0.. {
        let model = console();
        let dma = FakeDma::new(&model.lock().unwrap().memory, 100).with_shares(shares);
        match ConsoleDriver::new(FakeTransport::new(&model, true), &dma) {
            Ok(_) => {
                // Three values are shared: the permit and two sets of buffers. The memory of the two
                // virtqueues is not shared.
                assert!(shares >= 3, "{shares} values");
                return;
            }
            Err(error) => assert_eq!(error, InitError::OutOfMemory, "{shares} values"),
        }
        let events = model.lock().unwrap().memory.events();
        let freed = events.iter().filter(|event| **event == DeviceEvent::Freed).count();
        assert!(shares == 0 || freed > 0, "{events:?}");
    }
}

#[test]
fn memory_of_a_device_whose_reset_times_out_is_not_freed() {
    let model = console();
    let console = open(&model, 100).unwrap();
    model.lock().unwrap().memory.events();
    model.lock().unwrap().stuck_set = 1;
    drop(console);
    let events = model.lock().unwrap().memory.events();
    assert_eq!(events, [DeviceEvent::Status(0)]);
}

#[test]
fn negotiation_accepts_offered_and_wanted_features_only() {
    let model = DeviceModel::new(3, 0xff, &[]);
    let wanted = F::from_bits_retain(0b101.into()) | F::RING_PACKED;
    let device = Device::start(FakeTransport::new(&model, true), &dma(&model), Id::Console, wanted).unwrap();
    assert_eq!(model.lock().unwrap().accepted, 1 << 32 | 1 << 29 | 0b101);
    assert!(device.features().contains(F::VERSION_1) && !device.features().contains(F::RING_PACKED));
}

#[test]
fn failed_initialization_sets_failed_status() {
    let failed = |change: fn(&mut DeviceModel)| {
        let model = console();
        change(&mut model.lock().unwrap());
        let error = open(&model, 100).unwrap_err();
        let has_failed = model.lock().unwrap().status & DeviceStatus::FAILED.bits() != 0;
        (error, has_failed)
    };
    assert_eq!(failed(|model| model.id = 4), (InitError::WrongDeviceType(4), false));
    assert_eq!(failed(|model| model.id = 0x103), (InitError::WrongDeviceType(0x103), false));
    assert_eq!(failed(|model| model.stuck_set = 1), (InitError::ResetTimeout, true));
    assert_eq!(failed(|model| model.offered = 1 << 29), (InitError::LegacyOnly, true));
    assert_eq!(failed(|model| model.stuck_clear = 8), (InitError::FeaturesRejected, true));
    let no_queue = InitError::Transport(TransportError::NoQueue);
    assert_eq!(failed(|model| model.queues.truncate(1)), (no_queue, true));
}

#[test]
fn initialization_reports_out_of_memory_at_every_allocation() {
    let model = console();
    let enough = (0..).find(|pages| open(&model, *pages).is_ok()).unwrap();
    // A page for each of two virtqueues, a page for input, four for output.
    assert_eq!(enough, 7);
    for pages in 0..enough {
        assert_eq!(open(&model, pages).unwrap_err(), InitError::OutOfMemory);
    }
}

#[test]
fn config_is_read_within_one_generation() {
    let model = console();
    model.lock().unwrap().config = std::vec![0; 16];
    let device = start(&model).unwrap();
    model.lock().unwrap().changes = 3;
    // The configuration changes after each read of a field: values of two generations would differ.
    let read = || device.config(|config| Some((config.read_u8(0)?, config.read_u8(8)?, config.read_u16(2)?)));
    assert_eq!(read(), Ok((3, 3, 0x0303)));
    model.lock().unwrap().changes = u32::MAX;
    assert_eq!(read(), Err(InitError::InvalidConfig));
    assert_eq!(device.config(|config| config.read_u32(13)), Err(InitError::InvalidConfig));
    assert_eq!(device.config(|config| config.read_u64(12)), Err(InitError::InvalidConfig));
}

#[test]
fn interrupt_returns_cause_from_isr_status() {
    let model = console();
    let mut device = start(&model).unwrap();
    device.set_driver_ok();
    let mut interrupt = |bits| {
        model.lock().unwrap().interrupt_status = bits;
        device.interrupt(|| unreachable!())
    };
    let cause = |queues, config| Ok(InterruptCause { queues, config });
    assert_eq!(
        [0, 1, 2, 3].map(&mut interrupt),
        [cause(false, false), cause(true, false), cause(false, true), cause(true, true)]
    );
}

#[test]
fn device_needs_reset_breaks_device() {
    for reports_cause in [true, false] {
        let model = console();
        let transport = FakeTransport::new(&model, reports_cause);
        let mut device = Device::start(transport, &dma(&model), Id::Console, F::empty()).unwrap();
        device.set_driver_ok();
        assert_eq!(device.interrupt(|| true).map(|cause| cause.config), Ok(false));
        model.lock().unwrap().status |= DeviceStatus::DEVICE_NEEDS_RESET.bits();
        model.lock().unwrap().interrupt_status = 2;
        assert_eq!(device.interrupt(|| false), Err(DeviceError::NeedsReset));
        assert!(model.lock().unwrap().status & DeviceStatus::FAILED.bits() != 0);
        // The error is permanent, but interrupts are still acknowledged.
        model.lock().unwrap().status = ALL_STATUS_BITS;
        model.lock().unwrap().interrupt_status = 1;
        assert_eq!(device.interrupt(|| true), Err(DeviceError::NeedsReset));
        assert_eq!(model.lock().unwrap().interrupt_status, 0);
        assert_eq!(device.check_status(), Err(DeviceError::NeedsReset));
    }
}
