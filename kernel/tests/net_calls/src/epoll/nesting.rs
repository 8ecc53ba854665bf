//! Epoll instances as descriptors, and nested instances.

use super::{ET, IN, add, count, instance, now};
use crate::record::Transcript;
use crate::{CheckResult, sys};

pub(super) fn nested(record: &mut Transcript) -> CheckResult {
    let (outer, inner, counter) = (instance()?, instance()?, sys::eventfd()?);
    add(&inner, &counter, IN, 1)?;
    record.add("add", add(&outer, &inner, IN, 2));
    record.add("idle", now(&outer, 8));
    count(&counter)?;
    record.add("counted", now(&outer, 8));
    record.add("still", now(&outer, 8));
    record.add("inner", now(&inner, 8));
    record.add("outer", now(&outer, 8));
    sys::read(&counter, &mut [0; 8])?;
    record.add("read", now(&outer, 8));
    record.add("cycle", add(&inner, &outer, IN, 3));
    count(&counter)?;
    drop(inner);
    record.add("closed", now(&outer, 8));
    Ok(())
}

pub(super) fn nested_edge(record: &mut Transcript) -> CheckResult {
    let (outer, inner, counter) = (instance()?, instance()?, sys::eventfd()?);
    add(&inner, &counter, IN | ET, 1)?;
    add(&outer, &inner, IN | ET, 2)?;
    for _ in 0..2 {
        count(&counter)?;
        record.add("outer", now(&outer, 8));
        record.add("again", now(&outer, 8));
        record.add("inner", now(&inner, 8));
        record.add("again", now(&inner, 8));
    }
    Ok(())
}

/// When the counter is read and then counts again, the inner entry stays in the ready list of the inner
/// instance.
pub(super) fn nested_edge_level(record: &mut Transcript) -> CheckResult {
    let (outer, inner, counter) = (instance()?, instance()?, sys::eventfd()?);
    add(&inner, &counter, IN, 1)?;
    add(&outer, &inner, IN | ET, 2)?;
    for _ in 0..2 {
        count(&counter)?;
        record.add("outer", now(&outer, 8));
        record.add("inner", now(&inner, 8));
        sys::read(&counter, &mut [0; 8])?;
        record.add("read", now(&outer, 8));
    }
    Ok(())
}

pub(super) fn nested_too_deep(record: &mut Transcript) -> CheckResult {
    let mut below = instance()?;
    let mut instances = Vec::new();
    for _ in 0..6 {
        let above = instance()?;
        record.add("above", add(&above, &below, IN, 0));
        instances.push(std::mem::replace(&mut below, above));
    }
    Ok(())
}

pub(super) fn instance_as_descriptor(record: &mut Transcript) -> CheckResult {
    let (epoll, counter) = (instance()?, sys::eventfd()?);
    add(&epoll, &counter, IN, 1)?;
    record.add("poll", crate::events::show(&epoll, crate::events::ALL_EVENTS));
    count(&counter)?;
    record.add("ready", crate::events::show(&epoll, crate::events::ALL_EVENTS));
    record.add("read", sys::read(&epoll, &mut [0; 8]));
    record.add("write", sys::write(&epoll, &[0; 8]));
    let duplicate = sys::dup(&epoll)?;
    drop(epoll);
    record.add("duplicate", now(&duplicate, 8));
    Ok(())
}
