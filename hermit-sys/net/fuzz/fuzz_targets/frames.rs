//! See [`net_fuzz::frames`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| net_fuzz::frames(data));
