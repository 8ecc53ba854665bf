//! A lock made of notifications.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use event_listener::{Event, Listener, listener};

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

pub fn run() -> crate_uses::Result {
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
