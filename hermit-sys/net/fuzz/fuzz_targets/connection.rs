//! See [`net_fuzz::connection`].
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| net_fuzz::connection(data));

#[cfg(not(fuzzing))]
fn main() -> std::io::Result<()> {
    net_fuzz::replay(net_fuzz::connection)
}
