//! The entropy driver with a device model that returns all requested bytes, a part of them, or no bytes.

use super::{EntropyDriver, EntropyError, MAX_REQUEST};
use crate::device::DeviceError;
use crate::testing::{DeviceModel, FakeDma, FakeMemory, FakeTransport, SharedDevice};
use crate::virtqueue::QueueError;

fn entropy() -> (EntropyDriver<FakeTransport, FakeMemory>, SharedDevice) {
    let model = DeviceModel::new(4, 0, &[8]);
    let dma = FakeDma::new(&model.lock().unwrap().memory, 10);
    (EntropyDriver::new(FakeTransport::new(&model, false), &dma).unwrap(), model)
}

#[test]
fn complete_returns_requested_bytes() {
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
fn request_checks_size_and_pending_request() {
    let (mut entropy, _) = entropy();
    assert_eq!(entropy.request(0), Err(EntropyError::Size));
    assert_eq!(entropy.request(MAX_REQUEST + 1), Err(EntropyError::Size));
    assert_eq!(entropy.request(MAX_REQUEST), Ok(()));
    assert_eq!(entropy.request(1), Err(EntropyError::Busy));
}

#[test]
fn short_answer_is_returned_and_buffer_is_zeroed() {
    let (mut entropy, model) = entropy();
    let mut bytes = [0; 32];
    assert_eq!(entropy.request(32), Ok(()));
    assert!(model.lock().unwrap().answer(0, &[7; 5]));
    assert_eq!(entropy.complete(&mut bytes), Ok(Some(5)));
    assert_eq!(bytes[..6], [7, 7, 7, 7, 7, 0]);
    // Bytes that do not fit are discarded, and are not in the buffer of the next request.
    assert_eq!(entropy.request(32), Ok(()));
    assert!(model.lock().unwrap().answer(0, &[9; 32]));
    assert_eq!(entropy.complete(&mut bytes[..2]), Ok(Some(2)));
    assert_eq!(entropy.request(32), Ok(()));
    let mut device = model.lock().unwrap();
    let chain = device.take(0).unwrap();
    assert_eq!(device.memory.read(chain.parts[0].0, 32), [0; 32]);
}

#[test]
fn repeated_empty_answers_fail() {
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
fn overlong_answer_breaks_device() {
    let (mut entropy, model) = entropy();
    assert_eq!(entropy.request(8), Ok(()));
    let chain = model.lock().unwrap().take(0).unwrap();
    model.lock().unwrap().use_chain(0, chain.head, 9);
    let error = Err(EntropyError::Device(DeviceError::Queue(QueueError::TooLong)));
    assert_eq!(entropy.complete(&mut [0; 8]), error);
    assert_eq!(entropy.request(8).map(|()| None), error);
}
