//! Locks and notifications.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use event_listener::{Event, Listener, listener};
use parking_lot::{Condvar, Once, ReentrantMutex, RwLockUpgradableReadGuard};
use spin::{Barrier, Lazy};

struct Lock {
    is_locked: AtomicBool,
    released: Event,
}

impl Lock {
    fn acquire(&self) {
        while self.is_locked.swap(true, Ordering::Acquire) {
            listener!(self.released => listener);
            if !self.is_locked.swap(true, Ordering::Acquire) {
                return;
            }
            listener.wait();
        }
    }

    fn release(&self) {
        self.is_locked.store(false, Ordering::Release);
        self.released.notify(1);
    }
}

/// A lock made of notifications.
pub fn event_listener() -> crate_uses::Result {
    let lock = Lock { is_locked: AtomicBool::new(false), released: Event::new() };
    let counter = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..2000 {
                    lock.acquire();
                    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                    lock.release();
                }
            });
        }
    });
    println!("{}", counter.into_inner());
    let event = Event::new();
    let (one, other) = (event.listen(), event.listen());
    println!("{} {}", event.total_listeners(), event.notify(1));
    println!("{:?}", one.wait_timeout(Duration::from_secs(60)));
    println!("{:?}", other.wait_timeout(Duration::from_millis(1)));
    Ok(())
}

static ONCE: Once = Once::new();

/// Locks and condition variables.
pub fn parking_lot() -> crate_uses::Result {
    use parking_lot::{Mutex, RwLock};

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
    println!(
        "{lock:?} {} {:?}",
        *outer + *reentrant.lock(),
        pair.0.try_lock_for(Duration::from_millis(1)).is_some()
    );
    Ok(())
}

static TABLE: Lazy<Vec<u32>> = Lazy::new(|| (0..10).map(|number| number * number).collect());

/// Locks that spin, a barrier, and values that are made once.
pub fn spin() -> crate_uses::Result {
    use spin::{Mutex, Once, RwLock};

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
