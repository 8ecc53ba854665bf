//! Ends in an orderly way when the host requests it, by SIGTERM, Ctrl-C, or the power button of a PC.
//!
//! `shutdown MODE [THREADS]` prints `READY` once requests are handled. While it waits, `THREADS` threads are
//! busy.
//!
//! | mode | upon a request |
//! | --- | --- |
//! | `wait` | prints `ending`, joins the threads, and ends with the exit code 3 |
//! | `poll` | the same; it asks again and again instead of waiting |
//! | `input` | the same; the main thread reads standard input to its end first |
//! | `ignore` | prints `ignoring`, and goes on |
//! | `unaware` | does not handle requests: the default, the machine ends at once |

#![forbid(unsafe_code)]

use std::io::{self, Read};
use std::process::ExitCode;
use std::time::Duration;
use std::{env, hint, thread};

use hermit_sys::shutdown;

/// Exit code of an orderly end.
const ENDED: u8 = 3;

/// Exit code for invalid arguments.
const USAGE_ERROR: u8 = 2;

/// Interval at which the mode `poll` checks for a request.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

fn main() -> io::Result<ExitCode> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let threads = arguments.get(1).map_or(Ok(0), |count| count.parse());
    let (Some(mode), Ok(threads)) = (arguments.first(), threads) else { return Ok(usage()) };
    let busy = |count: u32| -> Vec<_> {
        let is_done = || hint::black_box(shutdown::requested());
        (0..count).map(|_| thread::spawn(move || while !is_done() {})).collect()
    };
    match mode.as_str() {
        "wait" | "poll" | "input" | "ignore" => {}
        "unaware" => {
            println!("READY");
            return sleep_forever();
        }
        _ => return Ok(usage()),
    }
    // From here on, requests are handled.
    shutdown::descriptor()?;
    let busy = busy(threads);
    println!("READY");
    match mode.as_str() {
        "ignore" => {
            shutdown::wait()?;
            println!("ignoring");
            return sleep_forever();
        }
        "poll" => {
            while !shutdown::requested() {
                thread::sleep(POLL_INTERVAL);
            }
        }
        "input" => {
            println!("{} bytes of input", io::stdin().read_to_end(&mut Vec::new())?);
            shutdown::wait()?;
        }
        _ => shutdown::wait()?,
    }
    println!("ending");
    for thread in busy {
        // The threads do not panic.
        let _: thread::Result<()> = thread.join();
    }
    Ok(ExitCode::from(ENDED))
}

fn sleep_forever() -> io::Result<ExitCode> {
    loop {
        thread::sleep(Duration::from_secs(3600));
    }
}

fn usage() -> ExitCode {
    eprintln!("usage: shutdown wait|poll|input|ignore|unaware [THREADS]");
    ExitCode::from(USAGE_ERROR)
}
