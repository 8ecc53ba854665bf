//! See [`uhyve_fuzz::boot_info`].
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| uhyve_fuzz::boot_info(data));

#[cfg(not(fuzzing))]
fn main() -> std::io::Result<()> {
    uhyve_fuzz::replay(uhyve_fuzz::boot_info)
}
