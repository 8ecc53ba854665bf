//! Locks that spin, a barrier, and values that are made once.

use std::thread;

use spin::{Barrier, Lazy, Mutex, Once, RwLock};

static TABLE: Lazy<Vec<u32>> = Lazy::new(|| (0..10).map(|number| number * number).collect());

pub fn run() -> crate_uses::Result {
    let (counter, lock, once) = (Mutex::new(0), RwLock::new(vec![0]), Once::new());
    let barrier = Barrier::new(3);
    let leaders = Mutex::new(0);
    thread::scope(|scope| {
        for index in 0..3 {
            let (counter, lock, once, barrier, leaders) = (&counter, &lock, &once, &barrier, &leaders);
            scope.spawn(move || {
                (0..1000).for_each(|_| *counter.lock() += 1);
                lock.write().push(index);
                once.call_once(|| TABLE[9]);
                *leaders.lock() += u32::from(barrier.wait().is_leader());
            });
        }
    });
    lock.write().sort();
    println!("{} {:?} {:?} {}", counter.lock(), lock.read(), once.get(), leaders.lock());
    let read = lock.read();
    println!("{} {}", lock.try_write().is_none(), lock.reader_count());
    drop(read);
    let guard = lock.upgradeable_read();
    guard.upgrade().clear();
    println!("{:?}", lock.into_inner());
    Ok(())
}
