//! The file systems of this crate. Each of them depends on the [interface](crate::interface) alone.
//!
//! | module | contents |
//! | --- | --- |
//! | `devfs` | the file system of device files (`/dev`) |
//! | `procfs` | the file system of facts about the machine and the process (`/proc`) |
//! | `ramfs` | a file system in memory |
//! | `unavailable` | a file system whose requests fail |

mod devfs;
mod procfs;
mod ramfs;
mod unavailable;

pub use devfs::{DevFs, DeviceFile, Devices};
pub use procfs::{Facts, Mapping, MappingKind, ProcFs};
pub use ramfs::{RamFs, UnpackError};
pub use unavailable::Unavailable;
