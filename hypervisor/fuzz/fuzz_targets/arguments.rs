//! See [`uhyve_fuzz::arguments`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| uhyve_fuzz::arguments(data));
