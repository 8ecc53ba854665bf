//! Property test: compares an instance with a simple model.

extern crate std;

use super::{Device, Instance, event, instance, object, scan};
use crate::Readiness;
use crate::epoll::events;
use core::task::Waker;
use hermit_abi::{EPOLLERR, EPOLLET, EPOLLHUP, EPOLLIN, EPOLLONESHOT, EPOLLOUT, EPOLLRDHUP};
use hermit_interface::Errno;
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::sample::select;
use proptest::{prop_assert_eq, proptest};
use std::collections::VecDeque;
use std::sync::Arc;
use std::vec::Vec;
use std::{format, vec};

/// A step of the property test; objects and descriptors by number.
#[derive(Clone, Copy, Debug)]
enum Step {
    Add(i32, usize, u32),
    Modify(i32, usize, u32),
    Remove(i32, usize),
    Change(usize, Readiness),
    Set(usize, Readiness),
    Close(usize),
    Scan(usize),
}

const OBJECTS: usize = 6;
const DESCRIPTORS: i32 = 3;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let readiness = || (0..32_u32).prop_map(Readiness::from_bits);
    let all = vec![EPOLLIN, EPOLLOUT, EPOLLRDHUP, EPOLLET, EPOLLONESHOT];
    let bits = move || vec(select(all.clone()), 0..4).prop_map(|bits| bits.iter().fold(0, |a, b| a | b));
    let (object, descriptor) = (0..OBJECTS, 0..DESCRIPTORS);
    vec(
        prop_oneof![
            4 => (descriptor.clone(), object.clone(), bits()).prop_map(|(d, o, e)| Step::Add(d, o, e)),
            3 => (descriptor.clone(), object.clone(), bits()).prop_map(|(d, o, e)| Step::Modify(d, o, e)),
            2 => (descriptor, object.clone()).prop_map(|(d, o)| Step::Remove(d, o)),
            8 => (object.clone(), readiness()).prop_map(|(o, r)| Step::Change(o, r)),
            4 => (object.clone(), readiness()).prop_map(|(o, r)| Step::Set(o, r)),
            1 => object.prop_map(Step::Close),
            8 => (any::<bool>(), 1..20_usize).prop_map(|(all, max)| Step::Scan(if all { 100 } else { max })),
            1 => Just(Step::Scan(0)),
        ],
        0..if cfg!(miri) { 40 } else { 300 },
    )
}

/// An entry of the model.
#[derive(Clone, Debug)]
struct ModelEntry {
    key: (i32, usize),
    events: u32,
    data: u64,
}

/// The model: a list of all entries, and a list of the keys of ready entries.
#[derive(Debug, Default)]
struct Model {
    entries: Vec<ModelEntry>,
    ready: VecDeque<(i32, usize)>,
    readiness: [u32; OBJECTS],
}

const REPORTED: u32 = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLHUP | EPOLLERR;

impl Model {
    fn find(&mut self, key: (i32, usize)) -> Option<&mut ModelEntry> {
        self.entries.iter_mut().find(|entry| entry.key == key)
    }

    fn queue(&mut self, key: (i32, usize)) {
        let readiness = self.readiness[key.1];
        let Some(entry) = self.find(key) else { return };
        if entry.events & readiness & REPORTED != 0 && !self.ready.contains(&key) {
            self.ready.push_back(key);
        }
    }

    fn add(&mut self, key: (i32, usize), events: u32, data: u64) -> Result<(), Errno> {
        if self.find(key).is_some() {
            return Err(Errno::EEXIST);
        }
        self.entries.push(ModelEntry { key, events: events | EPOLLERR | EPOLLHUP, data });
        self.queue(key);
        Ok(())
    }

    fn modify(&mut self, key: (i32, usize), events: u32, data: u64) -> Result<(), Errno> {
        let entry = self.find(key).ok_or(Errno::ENOENT)?;
        (entry.events, entry.data) = (events | EPOLLERR | EPOLLHUP, data);
        self.queue(key);
        Ok(())
    }

    fn remove(&mut self, key: (i32, usize)) -> Result<(), Errno> {
        self.find(key).ok_or(Errno::ENOENT)?;
        self.entries.retain(|entry| entry.key != key);
        self.ready.retain(|ready| *ready != key);
        Ok(())
    }

    /// An object has changed. Entries are queued in the order in which they have been looked at.
    fn change(&mut self, object: usize, readiness: Readiness, order: &[i32]) {
        self.readiness[object] = events(readiness);
        // An entry whose events have not occurred is queued, too. The scan drops it, unless it is ready by
        // then.
        for descriptor in order {
            let key = (*descriptor, object);
            let is_enabled = self.find(key).is_some_and(|entry| entry.events & REPORTED != 0);
            if is_enabled && !self.ready.contains(&key) {
                self.ready.push_back(key);
            }
        }
    }

    fn close(&mut self, object: usize) {
        self.entries.retain(|entry| entry.key.1 != object);
        self.ready.retain(|ready| ready.1 != object);
        self.readiness[object] = 0;
    }

    fn scan(&mut self, max: usize) -> Vec<(u32, u64)> {
        let (mut found, mut again) = (Vec::new(), VecDeque::new());
        while found.len() < max
            && let Some(key) = self.ready.pop_front()
        {
            let readiness = self.readiness[key.1];
            let Some(entry) = self.find(key) else { continue };
            let events = entry.events & readiness & REPORTED;
            if events == 0 {
                continue;
            }
            found.push((events, entry.data));
            if entry.events & EPOLLONESHOT != 0 {
                entry.events &= !REPORTED;
            } else if entry.events & EPOLLET == 0 {
                again.push_back(key);
            }
        }
        self.ready.append(&mut again);
        found
    }
}

proptest! {
    #[test]
    #[cfg_attr(miri, ignore = "wakers of an `Arc` have several vtables: `will_wake` is false")]
    fn instance_agrees_with_a_model(steps in steps()) {
        let epoll = instance();
        let mut devices: Vec<_> = (0..OBJECTS).map(|_| Device::new()).collect();
        let mut model = Model::default();
        // Which object has registered which descriptors, in order: those that were woken register again when
        // looked at.
        for (data, step) in (0..).zip(steps) {
            match step {
                Step::Add(descriptor, number, events) => {
                    let added = epoll.add(descriptor, &object(&devices[number]), event(events, data));
                    prop_assert_eq!(added, model.add((descriptor, number), events, data));
                }
                Step::Modify(descriptor, number, events) => {
                    let modified = epoll.modify(descriptor, &object(&devices[number]), event(events, data));
                    prop_assert_eq!(modified, model.modify((descriptor, number), events, data));
                }
                Step::Remove(descriptor, number) => {
                    let removed = epoll.remove(descriptor, &object(&devices[number]));
                    prop_assert_eq!(removed, model.remove((descriptor, number)));
                }
                Step::Change(number, readiness) => {
                    let order: Vec<i32> = registered(&epoll, &devices[number]);
                    devices[number].change(readiness);
                    model.change(number, readiness, &order);
                }
                Step::Set(number, readiness) => {
                    devices[number].set(readiness);
                    model.readiness[number] = events(readiness);
                }
                Step::Close(number) => {
                    devices[number] = Device::new();
                    model.close(number);
                }
                Step::Scan(max) => {
                    let (found, expected) = (scan(&epoll, max), model.scan(max));
                    prop_assert_eq!(found, expected, "{}", format!("step {data}"));
                }
            }
        }
        drop(epoll);
        for device in devices {
            prop_assert_eq!((device.wakers(), Arc::strong_count(&device)), (0, 1));
        }
    }
}

/// The descriptors of the entries whose wakers an object has, in order.
fn registered(epoll: &Instance, device: &Device) -> Vec<i32> {
    let wakers = device.waiters.lock();
    let set = epoll.shared.set.lock();
    let entries = || (0..set.bound()).filter_map(|number| set.get(number));
    let descriptor =
        |waker: &Waker| entries().find(|entry| entry.waker.will_wake(waker)).map(|entry| entry.descriptor);
    wakers.iter().filter_map(descriptor).collect()
}
