//! Reports of panics that need no files.

use std::sync::Once;
use std::{env, panic, thread};

use super::denial;
use crate::log;

static REPORT: Once = Once::new();

/// Has panics of confined threads reported without a backtrace, which takes the program's file. Others are reported as ever.
pub(super) fn report() {
    REPORT.call_once(|| {
        let ordinary = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if denial::has_role() {
                say(panic);
            } else {
                ordinary(panic);
            }
        }));
    });
}

fn say(panic: &panic::PanicHookInfo<'_>) {
    log::say(format_args!("thread {} {panic}", thread::current().name().unwrap_or("without a name")));
    if env::var_os("RUST_BACKTRACE").is_some_and(|wanted| wanted != "0") {
        log::say(format_args!("there is no backtrace in the sandbox; --no-sandbox switches it off"));
    }
}
