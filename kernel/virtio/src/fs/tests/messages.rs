//! Messages whose replies no task awaits. A task may only wait until all of them are handled.

use core::task::Waker;
use std::sync::Arc;
use std::vec::Vec;

use super::{Counter, Driver, HIPRIO, REQUESTS, answer, fs, request, submit, try_submit};
use crate::device::DeviceError;
use crate::fs::Progress;
use crate::testing::SharedDevice;
use crate::virtqueue::QueueError;

#[test]
fn messages_beyond_the_queues_are_sent_later() {
    let (mut fs, model, _) = fs(&[4, 128]);
    for number in 0..10 {
        assert!(!fs.send(&[number; 48], false));
    }
    let mut seen = Vec::new();
    while seen.len() < 10 {
        let mut device = model.lock().unwrap();
        let chain = device.take(HIPRIO).expect("a message");
        let bytes = device.gather(&chain);
        assert_eq!(bytes.len(), 48);
        seen.push(bytes[0]);
        device.use_chain(HIPRIO, chain.head, 0);
        drop(device);
        fs.interrupt();
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..10).collect::<Vec<u8>>());
}

#[test]
fn messages_with_a_reply_free_their_slots() {
    let (mut fs, model, _) = fs(&[4, 128]);
    for number in 0..40 {
        assert!(!fs.send(&[number; 64], true));
    }
    for _ in 0..40 {
        assert_eq!(answer(&mut fs, &model, &[0; 16]).len(), 64);
        assert!(fs.next_waker().is_none());
    }
    assert!(try_submit(&mut fs, &request(&[1], &[], 0), Waker::noop()).is_ok());
}

/// Makes the device use the next chain of a queue, and raise an interrupt if the driver wants one. Returns
/// true if the device raises an interrupt.
fn use_next(fs: &mut Driver, model: &SharedDevice, queue: u16, reply: &[u8]) -> bool {
    let mut device = model.lock().unwrap();
    let chain = device.take(queue).expect("a message");
    let written = device.scatter(&chain, reply);
    let before = device.queues[usize::from(queue)].interrupts;
    device.use_chain(queue, chain.head, written);
    let has_interrupted = device.queues[usize::from(queue)].interrupts > before;
    drop(device);
    if has_interrupted {
        fs.interrupt();
    }
    has_interrupted
}

/// Returns true if the device has handled `count` messages. Checks that this call collects no further
/// messages.
fn is_handled(fs: &mut Driver, count: u64, waker: &Waker) -> bool {
    let progress = fs.poll_handled(count, waker);
    assert!(!progress.is_wake_due);
    progress.is_handled
}

#[test]
#[cfg_attr(miri, ignore = "wakers of an `Arc` have several vtables: `will_wake` is false")]
fn task_that_waits_for_messages_is_woken_by_each() {
    let waker = Waker::from(Arc::new(Counter::default()));
    let (mut fs, model, _) = fs(&[4, 128]);
    assert!(is_handled(&mut fs, 0, &waker));
    assert!(!fs.send(&[1; 48], false) && !fs.send(&[2; 64], true));
    assert_eq!((fs.sent(), is_handled(&mut fs, 2, &waker)), (2, false));
    assert!(use_next(&mut fs, &model, HIPRIO, &[]));
    assert!(fs.next_waker().is_some());
    assert_eq!((is_handled(&mut fs, 1, &waker), is_handled(&mut fs, 2, &waker)), (true, false));
    assert!(use_next(&mut fs, &model, REQUESTS, &[0; 16]));
    assert!(fs.next_waker().is_some() && fs.next_waker().is_none());
    assert!(is_handled(&mut fs, 2, &waker));
    fs.stop();
    assert!(is_handled(&mut fs, 3, &waker));
}

/// The device uses the next message of the high-priority queue. There is no interrupt for it, because the
/// driver collects the message before the device checks if the driver wants an interrupt.
fn use_without_interrupt(model: &SharedDevice) {
    let mut device = model.lock().unwrap();
    let chain = device.take(HIPRIO).expect("a message");
    device.use_chain(HIPRIO, chain.head, 0);
}

#[test]
#[cfg_attr(miri, ignore = "wakers of an `Arc` have several vtables: `will_wake` is false")]
fn handled_message_found_by_another_task_wakes_those_that_wait() {
    let waker = Waker::from(Arc::new(Counter::default()));
    let (mut fs, model, _) = fs(&[4, 128]);
    assert!(!fs.send(&[1; 48], false) && !fs.send(&[2; 48], false));
    assert!(!is_handled(&mut fs, 2, &waker));
    use_without_interrupt(&model);
    assert!(fs.send(&[3; 48], false));
    assert!(fs.next_waker().is_some());
    assert!(!is_handled(&mut fs, 2, &waker));
    use_without_interrupt(&model);
    let found = fs.poll_handled(3, &waker);
    assert_eq!(found, Progress { is_handled: false, is_wake_due: true });
    assert!(fs.next_waker().is_some());
    // Must not wake a task for an event for which no task waits. A waiting task wakes itself only after
    // progress.
    use_without_interrupt(&model);
    assert!(!fs.send(&[4; 48], false));
    assert!(is_handled(&mut fs, 3, &waker) && !is_handled(&mut fs, 4, &waker));
}

#[test]
#[cfg_attr(miri, ignore = "wakers of an `Arc` have several vtables: `will_wake` is false")]
fn room_found_by_another_task_is_for_late_messages() {
    let waker = Waker::from(Arc::new(Counter::default()));
    let (mut fs, model, _) = fs(&[4, 128]);
    for number in 0..6 {
        assert!(!fs.send(&[number; 48], false));
    }
    assert!(!is_handled(&mut fs, 6, &waker));
    (0..4).for_each(|_| use_without_interrupt(&model));
    assert!(fs.send(&[6; 48], false));
    // The device handles all three messages without an interrupt.
    (0..3).for_each(|_| use_without_interrupt(&model));
    assert_eq!(fs.poll_handled(7, &waker), Progress { is_handled: true, is_wake_due: true });
}

#[test]
#[cfg_attr(miri, ignore = "wakers of an `Arc` have several vtables: `will_wake` is false")]
fn failure_found_by_a_message_fails_requests_and_wakes_them() {
    let waker = Waker::from(Arc::new(Counter::default()));
    let find: [&dyn Fn(&mut Driver) -> bool; 2] =
        [&|fs| fs.send(&[2; 48], false), &|fs| fs.poll_handled(1, &waker).is_wake_due];
    for find in find {
        let (mut fs, model, dma) = fs(&[4, 128]);
        let ticket = submit(&mut fs, &dma, &request(&[1], &[], 0), Waker::noop()).unwrap();
        assert!(!fs.send(&[1; 48], false));
        model.lock().unwrap().use_chain(HIPRIO, 3, 0);
        assert!(fs.next_waker().is_none());
        assert!(find(&mut fs));
        assert!(fs.next_waker().is_some());
        assert_eq!(
            fs.take(ticket, Waker::noop()).map(drop),
            Err(DeviceError::Queue(QueueError::NotInFlight))
        );
        // It is reported once.
        assert!(!find(&mut fs));
        assert!(is_handled(&mut fs, 9, &waker));
    }
}
