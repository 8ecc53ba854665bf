//! Return of free memory to the host on uhyve ([`hermit_interface::machine::RETURN_PORT`]).

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

use hermit_interface::boot_info::{BootInfo, TAKES_MEMORY_BACK};
pub(super) use hermit_interface::machine::encode_returned;

use crate::ops::MemoryReturn;

/// True if uhyve announces the port.
static IS_AVAILABLE: AtomicBool = AtomicBool::new(false);

/// Records if uhyve announces the port.
pub(super) fn init(info: &BootInfo) {
    IS_AVAILABLE.store(info.features & TAKES_MEMORY_BACK != 0, Relaxed);
}

/// Returns the way in which memory returns: the port, if the kernel may write to it.
pub(super) fn kind() -> MemoryReturn {
    if IS_AVAILABLE.load(Relaxed) { MemoryReturn::ByCall } else { MemoryReturn::Never }
}
