//! See [`uhyve_fuzz::block`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| uhyve_fuzz::block(data));
