//! The entropy device against one that gives much, little, nothing.

use super::{Entropy, EntropyError, MAX_REQUEST};
use crate::device::DeviceError;
use crate::testing::{DeviceModel, FakeDma, FakeMemory, FakeTransport, SharedDevice};
use crate::virtqueue::QueueError;

fn entropy() -> (Entropy<FakeTransport, FakeMemory>, SharedDevice) {
    let model = DeviceModel::new(4, 0, &[8]);
    let dma = FakeDma::new(&model.lock().unwrap().memory, 10);
    (Entropy::new(FakeTransport::new(&model, false), &dma).unwrap(), model)
}

#[test]
fn what_was_asked_for_comes() {
    let (mut entropy, model) = entropy();
    let mut bytes = [0; 32];
    assert_eq!(entropy.complete(&mut bytes), Ok(None));
    assert_eq!(entropy.request(32), Ok(()));
    assert_eq!(entropy.complete(&mut bytes), Ok(None));
    assert!(model.lock().unwrap().answer(0, &[7; 100]));
    assert_eq!(model.lock().unwrap().queues[0].interrupts, 1);
    assert_eq!(entropy.interrupt().map(|cause| cause.queues), Ok(true));
    assert_eq!(entropy.complete(&mut bytes), Ok(Some(32)));
    assert_eq!(bytes, [7; 32]);
    assert_eq!(entropy.complete(&mut bytes), Ok(None));
}

#[test]
fn requests_are_one_at_a_time_and_of_sensible_size() {
    let (mut entropy, _) = entropy();
    assert_eq!(entropy.request(0), Err(EntropyError::Size));
    assert_eq!(entropy.request(MAX_REQUEST + 1), Err(EntropyError::Size));
    assert_eq!(entropy.request(MAX_REQUEST), Ok(()));
    assert_eq!(entropy.request(1), Err(EntropyError::Busy));
}

#[test]
fn less_than_asked_for_is_what_there_is() {
    let (mut entropy, model) = entropy();
    let mut bytes = [0; 32];
    assert_eq!(entropy.request(32), Ok(()));
    assert!(model.lock().unwrap().answer(0, &[7; 5]));
    assert_eq!(entropy.complete(&mut bytes), Ok(Some(5)));
    assert_eq!(bytes[..6], [7, 7, 7, 7, 7, 0]);
    // What there is no room for is lost, and not to be found by the next request.
    assert_eq!(entropy.request(32), Ok(()));
    assert!(model.lock().unwrap().answer(0, &[9; 32]));
    assert_eq!(entropy.complete(&mut bytes[..2]), Ok(Some(2)));
    assert_eq!(entropy.request(32), Ok(()));
    let mut device = model.lock().unwrap();
    let chain = device.take(0).unwrap();
    assert_eq!(device.memory.read(chain.parts[0].0, 32), [0; 32]);
}

#[test]
fn a_device_that_gives_nothing_again_and_again_has_failed() {
    let (mut entropy, model) = entropy();
    let mut ask = |answer: &[u8]| {
        entropy.request(8)?;
        assert!(model.lock().unwrap().answer(0, answer));
        entropy.complete(&mut [0; 8])
    };
    for answer in [&[][..], &[], &[], &[1]] {
        assert_eq!(ask(answer), Ok(Some(answer.len())));
    }
    for _ in 0..3 {
        assert_eq!(ask(&[]), Ok(Some(0)));
    }
    assert_eq!(ask(&[]), Err(EntropyError::Empty));
    assert_eq!(entropy.request(8), Err(EntropyError::Empty));
}

#[test]
fn a_device_that_tells_of_more_than_there_is_has_failed() {
    let (mut entropy, model) = entropy();
    assert_eq!(entropy.request(8), Ok(()));
    let chain = model.lock().unwrap().take(0).unwrap();
    model.lock().unwrap().put(0, chain.head, 9);
    let error = Err(EntropyError::Device(DeviceError::Queue(QueueError::TooLong)));
    assert_eq!(entropy.complete(&mut [0; 8]), error);
    assert_eq!(entropy.request(8).map(|()| None), error);
}
