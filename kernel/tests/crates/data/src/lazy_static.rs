//! Values that the first access makes, also from several threads.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

static MADE: AtomicUsize = AtomicUsize::new(0);

lazy_static::lazy_static! {
    static ref TABLE: BTreeMap<u32, String> = {
        MADE.fetch_add(1, Ordering::Relaxed);
        thread::yield_now();
        (0..100).map(|number| (number * number, format!("{number}²"))).collect()
    };
    static ref LOG: Mutex<Vec<u32>> = Mutex::new(Vec::new());
}

pub fn run() -> crate_uses::Result {
    let find = |number: u32| move || LOG.lock().expect("not poisoned").push(TABLE.range(number..).next().map_or(0, |(key, _)| *key));
    let threads: Vec<_> = (0..8).map(|number| thread::spawn(find(number * 1000))).collect();
    for thread in threads {
        thread.join().map_err(|_| "panic")?;
    }
    LOG.lock().expect("not poisoned").sort();
    println!("{:?} {} {:?}", LOG.lock().expect("not poisoned"), MADE.load(Ordering::Relaxed), TABLE.get(&81));
    lazy_static::initialize(&TABLE);
    Ok(())
}
