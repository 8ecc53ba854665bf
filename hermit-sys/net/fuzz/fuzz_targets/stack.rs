//! See [`net_fuzz::stack`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| net_fuzz::stack(data));
