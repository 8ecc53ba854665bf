//! Locks and condition variables.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, Once, ReentrantMutex, RwLock, RwLockUpgradableReadGuard};

static ONCE: Once = Once::new();

pub fn run() -> crate_uses::Result {
    let pair = Arc::new((Mutex::new(Vec::new()), Condvar::new()));
    let threads: Vec<_> = (0..4)
        .map(|index| {
            let pair = pair.clone();
            thread::spawn(move || {
                for step in 0..100 {
                    let mut list = pair.0.lock();
                    // Threads append in turn.
                    pair.1.wait_while(&mut list, |list| list.len() % 4 != index);
                    list.push(index * 1000 + step);
                    pair.1.notify_all();
                }
                ONCE.call_once(|| println!("once"));
            })
        })
        .collect();
    for thread in threads {
        thread.join().map_err(|_| "panic")?;
    }
    let mut list = pair.0.lock();
    println!("{:?} {}", &list[396..], list.len());
    println!("{}", pair.1.wait_for(&mut list, Duration::from_millis(2)).timed_out());
    drop(list);
    let lock = RwLock::new(5);
    let (one, other) = (lock.read(), lock.read());
    println!("{} {} {}", *one + *other, lock.try_write().is_none(), lock.try_read().is_some());
    drop((one, other));
    let upgradable = lock.upgradable_read();
    *RwLockUpgradableReadGuard::upgrade(upgradable) += 1;
    let reentrant = ReentrantMutex::new(7);
    let outer = reentrant.lock();
    println!("{lock:?} {} {:?}", *outer + *reentrant.lock(), pair.0.try_lock_for(Duration::from_millis(1)).is_some());
    Ok(())
}
