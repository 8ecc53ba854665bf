//! See [`uhyve_fuzz::usernet`].
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| uhyve_fuzz::usernet(data));

#[cfg(not(fuzzing))]
fn main() -> std::io::Result<()> {
    uhyve_fuzz::replay(uhyve_fuzz::usernet)
}
