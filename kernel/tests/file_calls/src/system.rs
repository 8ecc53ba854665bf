//! Extensions of `std::os` for files, by the platform.

#[cfg(target_os = "hermit")]
pub(crate) use std::os::hermit::fs::{
    DirBuilderExt, DirEntryExt, FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink,
};
#[cfg(unix)]
pub(crate) use std::os::unix::fs::{
    DirBuilderExt, DirEntryExt, FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink,
};
