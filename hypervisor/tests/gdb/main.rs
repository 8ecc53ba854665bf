//! A real gdb and real guests. They need /dev/kvm, gdb, and the folder that `HERMIT_TEST_IMAGES` names, with the images
//! `hello_world` and `threads`; without that variable, or if `HERMIT_TEST_ENGINE` names another engine, there is nothing to try.

#[cfg(test)]
mod guest;
#[cfg(test)]
mod tests;
