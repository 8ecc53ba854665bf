//! Panic reports that open no files.

use std::sync::Once;
use std::{env, panic, thread};

use super::denial;
use crate::host::log;

static INSTALL: Once = Once::new();

/// Installs a panic hook. For confined threads, it prints no backtrace, because a backtrace would open the
/// executable. For other threads, it calls the previous hook.
pub(super) fn install_hook() {
    INSTALL.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if denial::has_role() {
                report(panic);
            } else {
                previous(panic);
            }
        }));
    });
}

fn report(panic: &panic::PanicHookInfo<'_>) {
    log::say(format_args!("thread {} {panic}", thread::current().name().unwrap_or("without a name")));
    if env::var_os("RUST_BACKTRACE").is_some_and(|wanted| wanted != "0") {
        log::say(format_args!("there is no backtrace in the sandbox; --no-sandbox switches it off"));
    }
}
