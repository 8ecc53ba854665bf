//! Calls functions that are written in C, C++ and Fortran, which build.rs compiles: the crate `cc` finds the
//! compilers and the C library of the target. Prints the same as on Linux (`expected.txt`).

#![expect(unsafe_code, reason = "functions in other languages")]

#[cfg(target_os = "hermit")]
use hermit_sys as _;

use std::env;
use std::ffi::{CString, c_char, c_int, c_long};
use std::thread;

unsafe extern "C" {
    fn c_sum(numbers: *const c_int, count: usize) -> c_int;
    fn c_checks(folder: *const c_char) -> c_int;
    fn c_threads() -> c_int;
    safe fn c_add(number: c_long) -> c_int;
    safe fn c_total() -> c_long;
    safe fn _Exit(status: c_int) -> !;
}

#[cfg(has_cxx)]
unsafe extern "C" {
    safe fn cxx_area(size: f64) -> f64;
}

#[cfg(has_fortran)]
unsafe extern "C" {
    fn fortran_dot(count: usize, a: *const f64, b: *const f64) -> f64;
    fn fortran_square(size: usize, matrix: *const f64, squared: *mut f64);
}

/// Threads of Rust, and how often each of them calls C.
const THREADS: c_long = 4;
const CALLS: c_int = 1000;

/// Exit status of a program that ends by `_Exit`.
const IMMEDIATE_STATUS: c_int = 3;

fn main() {
    let folder = CString::new(env::temp_dir().into_os_string().into_encoded_bytes()).expect("no NUL in it");
    let numbers = [1, 2, 3, 4];
    // SAFETY: the pointer is to that many numbers, which the function only reads.
    println!("sum in C: {}", unsafe { c_sum(numbers.as_ptr(), numbers.len()) });
    // SAFETY: the text ends with NUL; the function uses C's environment while no other thread runs.
    assert_eq!(unsafe { c_checks(folder.as_ptr()) }, 0, "checks of C");
    // SAFETY: the function is called once, and shares with others only what a lock protects.
    assert_eq!(unsafe { c_threads() }, 0, "threads of C");
    let threads = (0..THREADS).map(|number| {
        thread::spawn(move || {
            for call in 1..=CALLS {
                assert_eq!(c_add(number), call, "thread-local variables of C");
            }
        })
    });
    threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().expect("a thread of Rust"));
    assert_eq!(c_total(), (0..THREADS).sum::<c_long>() * c_long::from(CALLS));
    println!("threads of C and Rust");
    #[cfg(has_cxx)]
    println!("area in C++: {}", cxx_area(2.0));
    #[cfg(has_fortran)]
    fortran();
    if env::args().nth(1).is_some_and(|argument| argument == "immediately") {
        // Without what C and C++ would do at exit.
        _Exit(IMMEDIATE_STATUS);
    }
}

#[cfg(has_fortran)]
fn fortran() {
    let (a, b) = ([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]);
    // SAFETY: both pointers are to that many numbers, which the function only reads.
    println!("dot product in Fortran: {}", unsafe { fortran_dot(a.len(), a.as_ptr(), b.as_ptr()) });
    let (matrix, mut squared) = ([1.0, 2.0, 3.0, 4.0], [0.0; 4]);
    // SAFETY: both pointers are to matrices of 2 by 2 numbers, which do not overlap; the second one is
    // exclusive.
    unsafe { fortran_square(2, matrix.as_ptr(), squared.as_mut_ptr()) };
    println!("square of a matrix in Fortran: {squared:?}");
}
