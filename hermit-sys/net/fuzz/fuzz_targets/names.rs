//! See [`net_fuzz::names`].
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| net_fuzz::names(data));

#[cfg(not(fuzzing))]
fn main() -> std::io::Result<()> {
    net_fuzz::replay(net_fuzz::names)
}
