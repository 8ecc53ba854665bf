//! See [`uhyve_fuzz::command_line`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| uhyve_fuzz::command_line(data));
