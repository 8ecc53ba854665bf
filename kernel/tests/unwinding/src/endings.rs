//! Panics that end the program.

use std::panic;
use std::process::ExitCode;
use std::thread;

/// Panics when it is dropped.
struct Panicking;

impl Drop for Panicking {
    fn drop(&mut self) {
        panic!("in a destructor, while unwinding");
    }
}

/// A function that must not unwind.
extern "C" fn foreign() {
    panic!("in a function of C");
}

/// Ends in the way that a name stands for; `None` for an unknown name.
pub(crate) fn end(name: &str) -> Option<ExitCode> {
    match name {
        "main" => panic!("in the main thread"),
        "destructor" => {
            let _panicking = Panicking;
            panic!("before the destructor")
        }
        "foreign" => {
            // It does not return, so nothing is caught.
            let _: thread::Result<()> = panic::catch_unwind(|| foreign());
        }
        "hook" => {
            panic::set_hook(Box::new(|_| panic!("in the hook")));
            panic!("before the hook")
        }
        "thread" => {
            let is_err = thread::spawn(|| panic!("in a thread")).join().is_err();
            println!("joined with an error: {is_err}");
            return Some(ExitCode::from(u8::from(!is_err)));
        }
        _ => return None,
    }
    Some(ExitCode::SUCCESS)
}
