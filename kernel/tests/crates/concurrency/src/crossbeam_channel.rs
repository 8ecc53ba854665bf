//! Channels that can be selected.

use std::thread;
use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, after, bounded, never, select, tick, unbounded};

pub fn run() -> crate_uses::Result {
    let (numbers, more) = (bounded::<u32>(0), unbounded::<String>());
    let sender = thread::spawn(move || {
        for number in 0..200 {
            if number % 3 == 0 {
                more.0.send(number.to_string())?;
            } else {
                numbers.0.send(number).map_err(|_| crossbeam_channel::SendError(String::new()))?;
            }
        }
        Ok::<_, crossbeam_channel::SendError<String>>(())
    });
    let (mut sum, mut texts, mut closed) = (0, 0, 0);
    let (mut first, mut second) = (numbers.1, more.1);
    while closed < 2 {
        select! {
            recv(first) -> number => match number {
                Ok(number) => sum += number,
                Err(_) => { closed += 1; first = never(); }
            },
            recv(second) -> text => match text {
                Ok(text) => texts += text.len(),
                Err(_) => { closed += 1; second = never(); }
            },
        }
    }
    sender.join().map_err(|_| "panic")??;
    println!("{sum} {texts}");
    let ticks = tick(Duration::from_millis(1));
    println!("{}", (0..5).filter(|_| ticks.recv().is_ok()).count());
    let (_kept, silent) = bounded::<u8>(1);
    println!("{}", silent.recv_timeout(Duration::from_millis(2)) == Err(RecvTimeoutError::Timeout));
    select! {
        recv(silent) -> _ => println!("a message"),
        recv(after(Duration::from_millis(2))) -> _ => println!("timeout"),
    }
    Ok(())
}
