//! The patches to the end of a program: `std::process::exit` does what Linux's `exit` does. It runs the
//! destructors of the calling thread's thread-local values, of which some write buffers to files, and only
//! one thread leaves.

use super::Patch;

const EXIT: &str = "std/src/sys/exit.rs";

pub(super) const PATCHES: &[Patch] = &[
    Patch {
        file: EXIT,
        old: "    _ => {
        /// Mitigation for <https://github.com/rust-lang/rust/issues/126600>
",
        new: "    target_os = \"hermit\" => {
        /// Returns to the first thread that ends the program, and keeps the others. If a destructor that the
        /// first one runs ends the program again, that aborts.
        pub fn unique_thread_exit() {
            use crate::ptr;
            use crate::sync::atomic::AtomicPtr;
            use crate::sync::atomic::Ordering::Relaxed;

            /// Its address tells threads apart.
            #[thread_local]
            static HERE: u8 = 0;
            static EXITING: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());

            let here = (&raw const HERE).cast_mut();
            match EXITING.compare_exchange(ptr::null_mut(), here, Relaxed, Relaxed) {
                Ok(_) => {}
                Err(exiting) if exiting == here => {
                    core::panicking::panic_nounwind(\"std::process::exit called re-entrantly\")
                }
                Err(_) => loop {
                    crate::sys::thread::sleep(crate::time::Duration::MAX);
                },
            }
        }
    }
    _ => {
        /// Mitigation for <https://github.com/rust-lang/rust/issues/126600>
",
    },
    Patch {
        file: EXIT,
        old: "            unsafe { hermit_abi::exit(code) }
",
        new: "            unique_thread_exit();
            // SAFETY: this thread runs no other code afterwards.
            unsafe {
                crate::sys::thread_local::destructors::run();
                hermit_abi::exit(code)
            }
",
    },
];
