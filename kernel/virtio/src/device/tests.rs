//! Devices that are not what they should be, and the order of things at the end.

use virtio_spec::{DeviceStatus, F, Id};

use super::{Device, DeviceError, InitError};
use crate::console::Console;
use crate::testing::{DeviceModel, Event, FakeDma, FakeTransport, SharedDevice};
use crate::transport::{InterruptCause, TransportError};

const ALL: u8 = 15;

fn console() -> SharedDevice {
    DeviceModel::new(3, 0, &[64, 64])
}

fn start(model: &SharedDevice) -> Result<Device<FakeTransport>, InitError> {
    Device::start(FakeTransport::new(model, true), Id::Console, F::empty())
}

fn open(
    model: &SharedDevice,
    pages: usize,
) -> Result<Console<FakeTransport, crate::testing::FakeMemory>, InitError> {
    let dma = FakeDma::new(&model.lock().unwrap().memory, pages);
    Console::new(FakeTransport::new(model, true), &dma)
}

#[test]
fn the_status_goes_up_step_by_step() {
    let model = console();
    let console = open(&model, 100).unwrap();
    let mut events = model.lock().unwrap().memory.events();
    events.retain(|event| matches!(event, Event::Status(_)));
    assert_eq!(events, [0, 1, 3, 11, ALL].map(Event::Status));
    drop(console);
    let events = model.lock().unwrap().memory.events();
    // First the device is stopped, then its memory is given back: two queues, two sets of buffers.
    assert_eq!(events, [Event::Status(0), Event::Freed, Event::Freed, Event::Freed, Event::Freed]);
}

#[test]
fn only_wanted_features_are_accepted() {
    let model = DeviceModel::new(3, 0xff, &[]);
    let wanted = F::from_bits_retain(0b101.into()) | F::RING_PACKED;
    let device = Device::start(FakeTransport::new(&model, true), Id::Console, wanted).unwrap();
    assert_eq!(model.lock().unwrap().accepted, 1 << 32 | 1 << 29 | 0b101);
    assert!(device.features().contains(F::VERSION_1) && !device.features().contains(F::RING_PACKED));
}

#[test]
fn devices_that_cannot_be_used_are_given_up() {
    let failed = |change: fn(&mut DeviceModel)| {
        let model = console();
        change(&mut model.lock().unwrap());
        let error = open(&model, 100).unwrap_err();
        let gave_up = model.lock().unwrap().status & DeviceStatus::FAILED.bits() != 0;
        (error, gave_up)
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
fn a_lack_of_memory_is_an_error_wherever_it_comes() {
    let model = console();
    let enough = (0..).find(|pages| open(&model, *pages).is_ok()).unwrap();
    // Two queues of a page each, a page for input, four for output.
    assert_eq!(enough, 7);
    for pages in 0..enough {
        assert_eq!(open(&model, pages).unwrap_err(), InitError::OutOfMemory);
    }
}

#[test]
fn the_configuration_is_read_until_it_stands_still() {
    let model = console();
    model.lock().unwrap().config = std::vec![0; 16];
    let device = start(&model).unwrap();
    model.lock().unwrap().changes = 3;
    // Each field is read while the other changes; a value of before and one of after would differ.
    let read = || device.config(|config| Some((config.read_u8(0)?, config.read_u8(8)?, config.read_u16(2)?)));
    assert_eq!(read(), Ok((3, 3, 0x0303)));
    model.lock().unwrap().changes = u32::MAX;
    assert_eq!(read(), Err(InitError::InvalidConfig));
    assert_eq!(device.config(|config| config.read_u32(13)), Err(InitError::InvalidConfig));
    assert_eq!(device.config(|config| config.read_u64(12)), Err(InitError::InvalidConfig));
}

#[test]
fn interrupts_say_why_they_come() {
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
fn a_device_that_needs_a_reset_is_given_up() {
    for tells in [true, false] {
        let model = console();
        let mut device = Device::start(FakeTransport::new(&model, tells), Id::Console, F::empty()).unwrap();
        device.set_driver_ok();
        assert_eq!(device.interrupt(|| true).map(|cause| cause.config), Ok(false));
        model.lock().unwrap().status |= DeviceStatus::DEVICE_NEEDS_RESET.bits();
        model.lock().unwrap().interrupt_status = 2;
        assert_eq!(device.interrupt(|| false), Err(DeviceError::NeedsReset));
        assert!(model.lock().unwrap().status & DeviceStatus::FAILED.bits() != 0);
        // For good, but its interrupts are taken.
        model.lock().unwrap().status = ALL;
        model.lock().unwrap().interrupt_status = 1;
        assert_eq!(device.interrupt(|| true), Err(DeviceError::NeedsReset));
        assert_eq!(model.lock().unwrap().interrupt_status, 0);
        assert_eq!(device.check_status(), Err(DeviceError::NeedsReset));
    }
}
