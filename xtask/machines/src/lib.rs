//! The machines that run images: uhyve and QEMU.
//!
//! [`uhyve`] has uhyve's command line and its report about the host. [`qemu::Guest`] describes a guest under
//! QEMU, starts it and waits for its end. QEMU's guests have the same network and mounted directories as
//! those of uhyve, by processes beside QEMU: [`user_network`] and [`virtiofsd`]. The options of `cargo xtask`
//! are not known here.

#![forbid(unsafe_code)]

pub mod debug_info;
pub mod network;
pub mod qemu;
pub mod signals;
pub mod uhyve;
pub mod user_network;
pub mod virtiofsd;
