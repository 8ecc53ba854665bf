//! The balloon driver with a device model that answers correctly, wrongly, twice or never.

use std::vec;
use std::vec::Vec;

use virtio_spec::F;

use super::BalloonDriver;
use crate::device::{DeviceError, InitError};
use crate::testing::{
    DeviceEvent, DeviceModel, FakeDma, FakeMemory, FakeRange, FakeTransport, SharedDevice, TakenChain,
};
use crate::virtqueue::QueueError;

/// Feature bits (virtio 1.2, section 5.5.3).
const MUST_TELL_HOST: u64 = 1 << 0;
const STATS_VQ: u64 = 1 << 1;
const FREE_PAGE_HINT: u64 = 1 << 3;
const PAGE_REPORTING: u64 = 1 << 5;

type Driver = BalloonDriver<FakeTransport, FakeMemory, FakeRange>;

fn start(features: u64, queues: &[u16]) -> (Result<Driver, InitError>, SharedDevice) {
    let model = DeviceModel::new(5, features, queues);
    let dma = FakeDma::new(&model.lock().unwrap().memory, 10);
    (BalloonDriver::new(FakeTransport::new(&model, false), &dma), model)
}

/// A device like QEMU's, whose `reporting_vq` is number 3.
fn balloon() -> (Driver, SharedDevice) {
    let (driver, model) = start(STATS_VQ | PAGE_REPORTING, &[128, 128, 128, 32]);
    (driver.unwrap(), model)
}

/// The device uses the next reported range.
fn use_next(model: &SharedDevice) -> TakenChain {
    let mut device = model.lock().unwrap();
    let chain = device.take(3).unwrap();
    device.use_chain(3, chain.head, 0);
    chain
}

#[test]
fn reported_range_comes_back_when_it_was_discarded() {
    let (mut balloon, model) = balloon();
    for number in 1..=300 {
        assert_eq!(balloon.report(FakeRange(number)), Ok(()));
        assert_eq!(balloon.complete(), Ok(None));
        assert_eq!(balloon.report(FakeRange(0)), Err(FakeRange(0)), "one is in flight");
        let mut device = model.lock().unwrap();
        let chain = device.take(3).unwrap();
        assert_eq!(chain.parts, [(number << 20, 0x2000, true)]);
        device.use_chain(3, chain.head, 0);
        drop(device);
        assert_eq!(balloon.interrupt().map(|cause| cause.queues), Ok(true));
        assert_eq!(balloon.complete(), Ok(Some(FakeRange(number))));
    }
}

#[test]
fn range_is_refused_and_none_is_lost_while_one_is_used_and_not_taken_back() {
    let (mut balloon, model) = balloon();
    assert_eq!(balloon.report(FakeRange(1)), Ok(()));
    use_next(&model);
    assert_eq!(balloon.report(FakeRange(2)), Err(FakeRange(2)));
    assert_eq!(balloon.complete(), Ok(Some(FakeRange(1))));
    assert_eq!(balloon.report(FakeRange(2)), Ok(()));
}

#[test]
fn queue_number_follows_from_offered_features() {
    for (features, number) in [(0, 2), (STATS_VQ, 3), (FREE_PAGE_HINT, 3), (STATS_VQ | FREE_PAGE_HINT, 4)] {
        let (driver, model) = start(features | PAGE_REPORTING, &[8; 5]);
        let model = model.lock().unwrap();
        let enabled: Vec<_> = (0..5).filter(|&index| model.queues[index].addresses.is_some()).collect();
        assert_eq!((driver.is_ok(), enabled), (true, vec![0, 1, number]));
        let sizes: Vec<_> = model.queues.iter().filter_map(|queue| Some(queue.addresses?.size)).collect();
        assert_eq!(sizes, [1, 1, 1]);
        let accepted = u128::from(model.accepted);
        assert_eq!(accepted, (F::VERSION_1 | F::EVENT_IDX).bits().to_ne() | u128::from(PAGE_REPORTING));
        drop(model);
    }
}

#[test]
fn must_tell_host_is_accepted() {
    let (driver, model) = start(MUST_TELL_HOST | PAGE_REPORTING, &[8; 3]);
    assert!(driver.is_ok());
    assert_eq!(model.lock().unwrap().accepted & MUST_TELL_HOST, MUST_TELL_HOST);
}

#[test]
fn memory_is_freed_only_after_the_device_was_reset() {
    let (balloon, model) = balloon();
    model.lock().unwrap().memory.events();
    drop(balloon);
    let events = model.lock().unwrap().memory.events();
    assert_eq!(events, [DeviceEvent::Status(0), DeviceEvent::Freed, DeviceEvent::Freed, DeviceEvent::Freed]);
}

#[test]
fn device_without_reports_is_refused() {
    let refused = |features, queues: &[u16]| start(features, queues).0.map(drop).unwrap_err();
    assert_eq!(refused(STATS_VQ | FREE_PAGE_HINT, &[8; 5]), InitError::MissingFeature);
    assert!(
        matches!(refused(PAGE_REPORTING, &[8; 2]), InitError::Transport(_)),
        "there is no queue for reports"
    );
    assert!(matches!(refused(PAGE_REPORTING, &[8, 0, 8]), InitError::Transport(_)), "there is no deflateq");
}

#[test]
fn device_that_names_another_chain_keeps_the_range() {
    for (id, error) in [(1, QueueError::NoDescriptor), (u32::MAX, QueueError::NoDescriptor)] {
        let (mut balloon, model) = balloon();
        assert_eq!(balloon.report(FakeRange(1)), Ok(()));
        let device = model.lock().unwrap();
        device.set_used_element(3, 0, id, 0);
        device.set_used_index(3, 1);
        drop(device);
        let failed = DeviceError::Queue(error);
        assert_eq!(balloon.complete(), Err(failed));
        assert_eq!(balloon.report(FakeRange(2)), Err(FakeRange(2)));
        assert_eq!(balloon.complete(), Err(failed), "the range stays with the device");
    }
}

#[test]
fn device_that_answers_twice_gets_no_further_range() {
    let (mut balloon, model) = balloon();
    assert_eq!(balloon.report(FakeRange(1)), Ok(()));
    let chain = use_next(&model);
    assert_eq!(balloon.complete(), Ok(Some(FakeRange(1))));
    model.lock().unwrap().use_chain(3, chain.head, 0);
    assert_eq!(balloon.report(FakeRange(2)), Err(FakeRange(2)));
    assert_eq!(balloon.complete(), Err(DeviceError::Queue(QueueError::IndexJump)));
}

#[test]
fn device_that_says_it_has_written_more_than_the_range_fails() {
    let (mut balloon, model) = balloon();
    assert_eq!(balloon.report(FakeRange(1)), Ok(()));
    let mut device = model.lock().unwrap();
    let chain = device.take(3).unwrap();
    device.use_chain(3, chain.head, 0x2001);
    drop(device);
    assert_eq!(balloon.complete(), Err(DeviceError::Queue(QueueError::TooLong)));
}

#[test]
fn device_that_never_answers_is_stopped_and_keeps_the_range() {
    let (mut balloon, model) = balloon();
    assert_eq!(balloon.report(FakeRange(1)), Ok(()));
    assert_eq!(balloon.complete(), Ok(None));
    balloon.stop();
    assert_eq!(model.lock().unwrap().status, 0, "it was reset");
    assert!(balloon.complete().is_err());
    assert_eq!(balloon.report(FakeRange(2)), Err(FakeRange(2)));
}
