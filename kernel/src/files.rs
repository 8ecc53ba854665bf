//! The program's files: mounts the virtual file system, and opens, closes and removes files in it.
//!
//! The root is a ramfs. It begins with the initramfs that the loader has passed. The device files in `/dev`,
//! the files in `/proc`, and folders of the host are mounted in it. The file systems themselves are in
//! `hermit_fs`; this module connects them to the descriptor table, and makes threads wait for them.
//!
//! A call has up to two paths. The fast path (`try_...`) never waits, and returns `None` if it would have to
//! wait. The slow path (`..._slow`) executes the same call as a future, on which the thread blocks.

mod mounts;
pub(crate) mod system;
mod write_back;

use alloc::sync::Arc;
use core::any::Any;
use core::mem::MaybeUninit;

use hermit_abi::{O_RDONLY, file_properties};
use hermit_fs::{
    DescriptorTarget, DevFs, FileSystem, Metadata, OpenFile, OpenedPath, ProcFs, RamFs, Symlinks, System,
    UnpackError, Vfs, Whence,
};
use hermit_hal::{initramfs, memory};
use hermit_interface::Errno;
use hermit_io::{Object, ReadBuffer};
use system::{File, Kernel, VFS};

use crate::descriptors::{FileObject, OPEN_TO_READ, Reserved};
use crate::devices::DeviceFiles;
use crate::procfs::KernelFacts;
use crate::threads::wait::complete;
use crate::{descriptors, fallible, report};

/// Returns the open file if the object is one.
pub(crate) fn file(object: &dyn Object) -> Option<&File> {
    let object: &dyn Any = object;
    object.downcast_ref()
}

impl FileObject for File {
    fn read(&self, buffer: &mut ReadBuffer<'_>) -> Result<(), Errno> {
        complete(OpenFile::read(self, buffer))
    }

    fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        complete(OpenFile::write(self, bytes))
    }

    fn move_position(&self, offset: i64, whence: Whence) -> Result<u64, Errno> {
        complete(OpenFile::seek(self, offset, whence))
    }

    fn metadata(&self) -> Result<Metadata, Errno> {
        complete(OpenFile::metadata(self))
    }

    fn close(self: Arc<Self>) -> Result<(), Errno> {
        if self.is_dirty() { flush(&self) } else { Ok(()) }
    }

    fn describe(&self) -> Result<DescriptorTarget, Errno> {
        complete(vfs()?.describe(self))
    }
}

/// Reports errors of earlier writes.
#[cold]
#[inline(never)]
fn flush(file: &File) -> Result<(), Errno> {
    complete(OpenFile::flush(file))
}

/// Permission bits of `/dev` and `/proc`.
const DIRECTORY: u32 = 0o755;

/// Permission bits of `/tmp`.
const TEMPORARY_DIRECTORY: u32 = 0o1777;

/// Returns the virtual file system. The first call that has enough memory mounts it.
///
/// # Errors
///
/// `ENOMEM` if there is no memory to mount it.
pub(crate) fn vfs() -> Result<&'static Vfs<Kernel>, Errno> {
    VFS.get_or_try_init(|| complete(mount()))
}

/// Frees the memory of the caches of the virtual file system.
fn reclaim_caches() {
    if let Some(vfs) = VFS.get() {
        vfs.reclaim();
    }
}

async fn mount() -> Result<Vfs<Kernel>, Errno> {
    // The limit is half of the memory, as for a tmpfs on Linux.
    let root: RamFs<Kernel> = RamFs::new(memory::available() / 2)?;
    if let Some(archive) = initramfs::archive()
        && let Err(error) = root.unpack(archive)
    {
        if let UnpackError::Entry { error: Errno::ENOMEM, .. } = error {
            return Err(Errno::ENOMEM);
        }
        report::invalid_configuration(format_args!("the tree of files that the loader has passed: {error}"));
    }
    let vfs =
        Vfs::new(fallible::arc(root).ok_or(Errno::ENOMEM)?)?.with_write_back(write_back::data_collected);
    for (path, permissions) in
        [(b"/dev".as_slice(), DIRECTORY), (b"/proc", DIRECTORY), (b"/tmp", TEMPORARY_DIRECTORY)]
    {
        match vfs.create_directory(path, permissions).await {
            // The directory is already in the initramfs.
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(error) => return Err(error),
        }
    }
    let devices = fallible::arc(DevFs::new(DeviceFiles, Kernel::now())).ok_or(Errno::ENOMEM)?;
    mount_on(&vfs, devices, b"/dev").await?;
    let procfs: ProcFs<Kernel, _> = ProcFs::new(KernelFacts);
    mount_on(&vfs, fallible::arc(procfs).ok_or(Errno::ENOMEM)?, b"/proc").await?;
    mounts::mount_all(&vfs).await?;
    OPEN_TO_READ.call_once(|| open_to_read);
    Ok(vfs)
}

/// Opens a file for reading, for the kernel's own use.
fn open_to_read(path: &[u8]) -> Result<i32, Errno> {
    open_slow(descriptors::reserve()?, path, O_RDONLY, 0)
}

/// Mounts a file system that every machine has. If the initramfs has a file that is not a directory at the
/// path, leaves the file system out.
///
/// # Errors
///
/// `ENOMEM`.
async fn mount_on(
    vfs: &Vfs<Kernel>,
    file_system: Arc<dyn FileSystem<Kernel>>,
    path: &[u8],
) -> Result<(), Errno> {
    match vfs.mount(file_system, path, false).await {
        Err(Errno::ENOMEM) => return Err(Errno::ENOMEM),
        Err(error) => report::warn(format_args!("{} is not mounted: {error}", path.escape_ascii())),
        Ok(()) => {}
    }
    Ok(())
}

/// Opens a path and returns a descriptor.
#[inline(always)]
pub(crate) fn open(path: &[u8], flags: i32, mode: u32) -> Result<i32, Errno> {
    // The descriptor is reserved first, so that no file is created or truncated if no descriptor is free.
    let descriptor = descriptors::reserve()?;
    match VFS.get().and_then(|vfs| vfs.try_open(path, flags, mode)) {
        Some(file) => Ok(descriptor.open_file(file)),
        None => open_slow(descriptor, path, flags, mode),
    }
}

/// Does [`open`] if the path is not cached or the call may have to wait.
#[inline(never)]
fn open_slow(descriptor: Reserved, path: &[u8], flags: i32, mode: u32) -> Result<i32, Errno> {
    Ok(match complete(vfs()?.open(path, flags, mode))? {
        OpenedPath::File(file) => descriptor.open_file(file),
        OpenedPath::Object(object) => descriptor.open(object),
    })
}

/// Stores the properties of the file that a path leads to, if the path is cached and the call need not wait.
/// If not, the caller uses [`properties`].
#[inline(always)]
pub(crate) fn try_properties<'a>(
    path: &[u8],
    out: &'a mut MaybeUninit<file_properties>,
) -> Option<&'a mut file_properties> {
    VFS.get()?.try_properties(path, out)
}

/// Returns the properties of the file that a path leads to.
#[inline(never)]
pub(crate) fn properties(path: &[u8], symlinks: Symlinks) -> Result<file_properties, Errno> {
    complete(vfs()?.metadata(path, symlinks)).map(|found| found.properties())
}

/// Removes the name of a file that is not a directory.
#[inline]
pub(crate) fn remove_file(path: &[u8]) -> Result<(), Errno> {
    match VFS.get().and_then(|vfs| vfs.try_remove_file(path)) {
        Some(()) => Ok(()),
        None => remove_file_slow(path),
    }
}

/// Does [`remove_file`] if the directory is not cached or the call may have to wait.
#[inline(never)]
fn remove_file_slow(path: &[u8]) -> Result<(), Errno> {
    complete(vfs()?.remove_file(path))
}
