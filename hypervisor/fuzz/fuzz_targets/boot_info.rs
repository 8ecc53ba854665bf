//! See [`uhyve_fuzz::boot_info`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| uhyve_fuzz::boot_info(data));
