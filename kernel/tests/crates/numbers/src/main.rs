//! Crates for numbers, time, identifiers and pictures.

mod arithmetic;
mod arrays;
mod calendar;
mod identifiers;
mod num_traits;
mod pictures;

use std::process::ExitCode;

fn main() -> ExitCode {
    crate_uses::main(&[
        ("chrono", calendar::chrono),
        ("humantime", calendar::humantime),
        ("image", pictures::image),
        ("jiff", calendar::jiff),
        ("nalgebra", arrays::nalgebra),
        ("nanoid", identifiers::nanoid),
        ("ndarray", arrays::ndarray),
        ("num-bigint", arithmetic::num_bigint),
        ("num-rational", arithmetic::num_rational),
        ("num-traits", num_traits::run),
        ("plotters", pictures::plotters),
        ("rust_decimal", arithmetic::rust_decimal),
        ("time", calendar::time),
        ("ulid", identifiers::ulid),
        ("uuid", identifiers::uuid),
    ])
}
