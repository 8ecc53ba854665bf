//! See [`uhyve_fuzz::entropy`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| uhyve_fuzz::entropy(data));
