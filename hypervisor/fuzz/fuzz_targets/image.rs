//! See [`uhyve_fuzz::image`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| uhyve_fuzz::image(data));
