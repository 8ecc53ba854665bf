//! See [`uhyve_fuzz::console`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| uhyve_fuzz::console(data));
