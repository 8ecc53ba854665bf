//! gdb debugs guests. The tests need gdb and a folder with the images `hello_world` and `threads`, which
//! `HERMIT_TEST_IMAGES` names; without that variable they are skipped. `HERMIT_TEST_ENGINE` names the engine;
//! otherwise the tests run with each engine that runs the images.

#[cfg(test)]
mod guest;
#[cfg(test)]
mod process_engine;
#[cfg(test)]
#[path = "../common/program.rs"]
mod program;
#[cfg(test)]
mod tests;
