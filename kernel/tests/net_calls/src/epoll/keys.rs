//! Refused operations, and the key of an entry: the descriptor number together with the open file
//! description.

use std::fs::File;

use super::{IN, LONG_TIMEOUT_MS, OUT, add, count, instance, modify, now, ready_counter, remove};
use crate::record::Transcript;
use crate::support::{IpVersion, settle, write};
use crate::{CheckResult, sys};

pub(super) fn not_open(record: &mut Transcript) -> CheckResult {
    let (epoll, counter, closed) = (instance()?, sys::eventfd()?, sys::closed_descriptor());
    record.add("add", add(&epoll, closed, IN, 0));
    record.add("modify", modify(&epoll, closed, IN, 0));
    record.add("remove", remove(&epoll, closed));
    record.add(
        "no instance",
        sys::epoll_control(closed, sys::EPOLL_CTL_ADD, sys::raw(&counter), Some((IN, 0))),
    );
    record.add("wait", sys::epoll_wait(closed, 8, 0).map(drop));
    Ok(())
}

pub(super) fn not_watchable(record: &mut Transcript) -> CheckResult {
    let (epoll, device, directory) = (instance()?, File::open("/dev/null")?, File::open("/")?);
    for (what, file) in [("device", device), ("directory", directory)] {
        record.add(what, add(&epoll, &file, IN, 0));
        record.add("modify", modify(&epoll, &file, IN, 0));
        record.add("remove", remove(&epoll, &file));
    }
    Ok(())
}

pub(super) fn not_an_instance(record: &mut Transcript) -> CheckResult {
    let (first, second) = (sys::eventfd()?, sys::eventfd()?);
    record.add("add", add(&first, &second, IN, 0));
    record.add("remove", remove(&first, &second));
    record.add("wait", sys::epoll_wait(&first, 8, 0).map(drop));
    Ok(())
}

pub(super) fn itself(record: &mut Transcript) -> CheckResult {
    let epoll = instance()?;
    record.add("itself", add(&epoll, &epoll, IN, 0));
    record.add("its duplicate", add(&epoll, sys::dup(&epoll)?, IN, 0));
    Ok(())
}

pub(super) fn arguments(record: &mut Transcript) -> CheckResult {
    let (epoll, counter) = (instance()?, ready_counter()?);
    let control = |operation, event| sys::epoll_control(&epoll, operation, sys::raw(&counter), event);
    record.add("unknown operation", control(4, Some((IN, 0))));
    record.add("no event", control(sys::EPOLL_CTL_ADD, None));
    record.add("unknown operation without event", control(0, None));
    add(&epoll, &counter, IN, u64::MAX)?;
    for max in [0, -1, i32::MIN, i32::MAX] {
        record.add("maximum", sys::epoll_wait_in_place(&epoll, max, 0));
    }
    record.add("nowhere", sys::epoll_wait_nowhere(&epoll, 0));
    record.add("nowhere, waiting", sys::epoll_wait_nowhere(&epoll, LONG_TIMEOUT_MS));
    record.add("data", now(&epoll, 1));
    record.add("remove", control(sys::EPOLL_CTL_DEL, None));
    record.add("nowhere, no event", sys::epoll_wait_nowhere(&epoll, 0));
    record.add("nowhere, timeout", sys::epoll_wait_nowhere(&epoll, 10));
    record.add("nowhere, not an instance", sys::epoll_wait_nowhere(&counter, 0));
    Ok(())
}

pub(super) fn key(record: &mut Transcript) -> CheckResult {
    let (epoll, counter) = (instance()?, ready_counter()?);
    let duplicate = sys::dup(&counter)?;
    record.add("modify", modify(&epoll, &counter, IN, 0));
    record.add("remove", remove(&epoll, &counter));
    record.add("add", add(&epoll, &counter, IN, 1));
    record.add("again", add(&epoll, &counter, IN, 2));
    record.add("modify duplicate", modify(&epoll, &duplicate, IN, 2));
    record.add("add duplicate", add(&epoll, &duplicate, IN, 2));
    record.add("both", now(&epoll, 8));
    record.add("remove", remove(&epoll, &counter));
    record.add("again", remove(&epoll, &counter));
    record.add("duplicate", now(&epoll, 8));
    Ok(())
}

pub(super) fn closed(record: &mut Transcript, ip: IpVersion) -> CheckResult {
    let epoll = instance()?;
    let (client, server) = ip.pair()?;
    let (other, _peer) = ip.pair()?;
    add(&epoll, &server, IN, 1)?;
    add(&epoll, &other, OUT, 2)?;
    write(&client, b"data")?;
    settle();
    record.add("open", now(&epoll, 8));
    drop(server);
    record.add("closed", now(&epoll, 8));
    drop(other);
    record.add("all closed", now(&epoll, 8));
    Ok(())
}

pub(super) fn duplicate_keeps(record: &mut Transcript) -> CheckResult {
    let (epoll, counter) = (instance()?, sys::eventfd()?);
    let duplicate = sys::dup(&counter)?;
    add(&epoll, &counter, IN, 7)?;
    drop(counter);
    record.add("before", now(&epoll, 8));
    count(&duplicate)?;
    record.add("after", now(&epoll, 8));
    drop(duplicate);
    record.add("closed", now(&epoll, 8));
    Ok(())
}

pub(super) fn number_again(record: &mut Transcript) -> CheckResult {
    let (epoll, counter) = (instance()?, ready_counter()?);
    let (number, duplicate) = (sys::raw(&counter), sys::dup(&counter)?);
    add(&epoll, &counter, IN, 1)?;
    drop(counter);
    // The lowest free number.
    let next = sys::eventfd()?;
    record.add("same number", sys::raw(&next) == number);
    record.add("modify", modify(&epoll, &next, IN, 2));
    record.add("add", add(&epoll, &next, IN, 2));
    record.add("first", now(&epoll, 8));
    count(&next)?;
    record.add("both", now(&epoll, 8));
    drop(duplicate);
    record.add("second", now(&epoll, 8));
    Ok(())
}
