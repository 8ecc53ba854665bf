//! Requests to end, which the host of a virtual machine sends: its "ctrl-c".

use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use std::{io, thread};

use crate::signal::RxFuture;
use crate::sync::watch;

/// Time between two looks for further requests. The descriptor stays readable after the first one.
const PAUSE: Duration = Duration::from_millis(50);

/// Announces requests to all listeners, once there has been one.
static REQUESTS: Mutex<Option<watch::Sender<()>>> = Mutex::new(None);

pub(super) fn ctrl_c() -> io::Result<RxFuture> {
    let mut requests = REQUESTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(sender) = &*requests {
        return Ok(RxFuture::new(sender.subscribe()));
    }
    let (sender, receiver) = watch::channel(());
    // SAFETY: any flags may be passed.
    let fd = unsafe { libc::shutdownfd(0) };
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    let name = "tokio-ctrl-c".to_owned();
    let announced = sender.clone();
    thread::Builder::new().name(name).spawn(move || announce(fd, &announced))?;
    *requests = Some(sender);
    Ok(RxFuture::new(receiver))
}

/// Announces each request, for as long as the program runs.
fn announce(fd: i32, sender: &watch::Sender<()>) {
    let mut announced = 0;
    loop {
        let mut count = [0; 8];
        // SAFETY: the array may be written.
        if unsafe { libc::read(fd, count.as_mut_ptr(), count.len()) } < 0 {
            return;
        }
        let count = u64::from_ne_bytes(count);
        if count > announced {
            announced = count;
            sender.send_replace(());
        }
        thread::sleep(PAUSE);
    }
}
