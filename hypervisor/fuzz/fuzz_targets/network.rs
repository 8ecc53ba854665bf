//! See [`uhyve_fuzz::network`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| uhyve_fuzz::network(data));
