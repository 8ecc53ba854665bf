//! See [`uhyve_fuzz::registers`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| uhyve_fuzz::registers(data));
