//! A real gdb and real guests. They need gdb and the folder that `HERMIT_TEST_IMAGES` names, with the images
//! `hello_world` and `threads`; without that variable there is nothing to try. `HERMIT_TEST_ENGINE` names the engine, otherwise
//! each one that runs the images is tried.

#[cfg(test)]
mod guest;
#[cfg(test)]
mod process;
#[cfg(test)]
mod tests;
