//! Atomics, cells and locks that the models replace by loom's.
//!
//! Code with a model imports these instead of those of `core` and `lock_api`. [loom](https://docs.rs/loom)
//! explores the order of accesses only if they are accesses to its own types. There are two builds of this
//! module:
//!
//! - `hermit-base`, for images and host tests. Each name is that of `core`, `alloc` or `lock_api`, or a type
//!   that compiles to nothing.
//! - `hermit-base-loom` (`kernel/models/base`), the same sources with `cfg(loom)`. The package
//!   `hermit-models` compiles the sources of crates with models, and gives them this build under the name
//!   `hermit_base`.
//!
//! So no other module selects between the two. What differs for other reasons asks [`IS_MODEL`]. Elsewhere,
//! `cfg(loom)` only separates models from unit tests. Unit tests are left out of the models, since loom's
//! types work only inside of a model.

#[cfg(loom)]
#[path = "sync/model.rs"]
mod imp;
#[cfg(not(loom))]
#[path = "sync/native.rs"]
mod imp;

#[cfg(feature = "alloc")]
pub use imp::Arc;
#[cfg(feature = "lock")]
pub use imp::Mutex;
pub use imp::{SwitchPoint, UnsafeCell, atomic, spin_loop};

/// True in the models. Sizes are smaller there, since the number of executions grows with them.
pub const IS_MODEL: bool = cfg!(loom);
