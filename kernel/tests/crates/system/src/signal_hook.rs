//! Actions for signals. None of these signals arrives.

use signal_hook::consts::{SIGTERM, SIGUSR1, TERM_SIGNALS};
use signal_hook::iterator::Signals;
use signal_hook::low_level::{signal_name, unregister};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub fn run() -> crate_uses::Result {
    let flag = Arc::new(AtomicBool::new(false));
    let ids = [SIGTERM, SIGUSR1].map(|signal| signal_hook::flag::register(signal, Arc::clone(&flag)));
    let mut signals = Signals::new(TERM_SIGNALS)?;
    println!("{:?} {:?}", signal_name(SIGTERM), signals.pending().collect::<Vec<_>>());
    let handle = signals.handle();
    let closer = std::thread::spawn(move || handle.close());
    println!("{} {}", signals.forever().count(), signals.is_closed());
    closer.join().unwrap();
    for id in ids {
        println!("{}", unregister(id?));
    }
    println!("{}", flag.load(Ordering::SeqCst));
    Ok(())
}
