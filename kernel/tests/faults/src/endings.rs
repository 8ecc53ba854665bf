//! Ends of the program while thread-local values have destructors.

use std::process;

use crate::ActionResult;

/// A value whose drop is seen on standard error.
struct Announced;

impl Drop for Announced {
    fn drop(&mut self) {
        eprintln!("destroyed");
    }
}

/// A value whose drop ends the program.
struct Exits;

impl Drop for Exits {
    fn drop(&mut self) {
        process::exit(5);
    }
}

/// `exit` runs the destructors of this thread.
pub(crate) fn exit_runs_destructors() -> ActionResult {
    thread_local!(static VALUE: Announced = const { Announced });
    VALUE.with(|_| ());
    process::exit(3)
}

/// A destructor that `exit` runs calls `exit`, which aborts: the program ends already.
pub(crate) fn destructor_exits() -> ActionResult {
    thread_local!(static VALUE: Exits = const { Exits });
    VALUE.with(|_| ());
    process::exit(3)
}
