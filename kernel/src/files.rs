//! The program's files: the virtual file system, with a ramfs as its root, which begins with the tree of files that the
//! loader has passed, the device files in `/dev`, `/proc`, and folders of the host.

mod mounts;
pub(crate) mod system;
mod write_back;

use alloc::sync::Arc;
use core::any::Any;
use core::mem::MaybeUninit;

use hermit_fs::{
    DescriptorTarget, DevFs, FileSystem, Metadata, OpenFile, OpenedPath, PageWindow, ProcFs, RamFs, Symlinks,
    System, Vfs, Whence,
};
use hermit_hal::{memory, tree};
use hermit_interface::Errno;
use hermit_io::{Access, FileHandle, Object, ReadBuffer};
use system::{Kernel, VFS};

use crate::descriptors::{FileObject, Handle};
use crate::devices::DeviceFiles;
use crate::procfs::KernelFacts;
use crate::threads::wait::complete;
use crate::{descriptors, fallible, report};

/// An open file.
pub(crate) type File = OpenFile<Kernel>;

/// The open file that an object is; `None` if it is none.
pub(crate) fn file(object: &dyn Object) -> Option<&File> {
    let object: &dyn Any = object;
    object.downcast_ref()
}

impl FileObject for File {
    fn read_now(&self, offset: u64, buffer: &mut [MaybeUninit<u8>]) -> Option<usize> {
        self.read_at_now(offset, buffer)
    }

    fn write_now(&self, offset: u64, bytes: &[u8]) -> Option<u64> {
        self.write_at_now(offset, bytes)
    }

    fn window(&self) -> Option<(Arc<PageWindow<Kernel>>, Access)> {
        OpenFile::window(self)
    }

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

    fn flush(&self) -> Result<(), Errno> {
        if self.is_dirty() { complete(OpenFile::flush(self)) } else { Ok(()) }
    }

    fn describe(&self) -> Result<DescriptorTarget, Errno> {
        complete(vfs()?.describe(self))
    }
}

/// Permission bits of `/dev` and `/proc`.
const DIRECTORY: u32 = 0o755;

/// Permission bits of `/tmp`.
const TEMPORARY_DIRECTORY: u32 = 0o1777;

/// The virtual file system, which the first call mounts.
///
/// # Errors
///
/// `ENOMEM` if there was no memory for it.
pub(crate) fn vfs() -> Result<&'static Vfs<Kernel>, Errno> {
    VFS.get_or_init(|| complete(mount())).as_ref().map_err(|error| *error)
}

/// Gives back the memory of names that are kept.
fn forget_names() {
    if let Some(Ok(vfs)) = VFS.get() {
        vfs.forget_names();
    }
}

async fn mount() -> Result<Vfs<Kernel>, Errno> {
    // A tmpfs on Linux has as much of all memory.
    let root: RamFs<Kernel> = RamFs::new(memory::available() / 2)?;
    if let Some(archive) = tree::archive()
        && let Err(error) = root.unpack(archive)
    {
        report::invalid_configuration(format_args!("the tree of files that the loader has passed: {error}"));
    }
    let vfs = Vfs::new(fallible::arc(root).ok_or(Errno::ENOMEM)?)?;
    for (path, permissions) in
        [(b"/dev".as_slice(), DIRECTORY), (b"/proc", DIRECTORY), (b"/tmp", TEMPORARY_DIRECTORY)]
    {
        match vfs.create_directory(path, permissions).await {
            // The tree has it.
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(error) => return Err(error),
        }
    }
    let devices = fallible::arc(DevFs::new(DeviceFiles, Kernel::now())).ok_or(Errno::ENOMEM)?;
    mount_on(&vfs, devices, b"/dev").await;
    let procfs: ProcFs<Kernel, _> = ProcFs::new(KernelFacts);
    mount_on(&vfs, fallible::arc(procfs).ok_or(Errno::ENOMEM)?, b"/proc").await;
    mounts::mount_all(&vfs).await;
    Ok(vfs)
}

/// Mounts a file system that every machine has. If that fails, since the tree has something else at the path than a directory,
/// files work without it.
async fn mount_on(vfs: &Vfs<Kernel>, file_system: Arc<dyn FileSystem>, path: &[u8]) {
    if let Err(error) = vfs.mount(file_system, path, false).await {
        report::warn(format_args!("{} is not mounted: {error}", path.escape_ascii()));
    }
}

/// Opens a path and returns a descriptor.
pub(crate) fn open(path: &[u8], flags: i32, mode: u32) -> Result<i32, Errno> {
    // First: without a free descriptor nothing is created or truncated.
    let descriptor = descriptors::reserve()?;
    let vfs = vfs()?;
    let opened = match vfs.open_now(path, flags, mode) {
        Some(file) => OpenedPath::File(file?),
        None => complete(vfs.open(path, flags, mode))?,
    };
    descriptor.open_handle(match opened {
        OpenedPath::File(file) => Handle::File(FileHandle::new(file)),
        OpenedPath::Object(object) => Handle::Object(object),
    })
}

/// Metadata of what a path leads to.
pub(crate) fn metadata(path: &[u8], symlinks: Symlinks) -> Result<Metadata, Errno> {
    let vfs = vfs()?;
    vfs.metadata_now(path).map_or_else(|| complete(vfs.metadata(path, symlinks)), Ok)
}

/// Removes a name of what is no directory.
pub(crate) fn remove_file(path: &[u8]) -> Result<(), Errno> {
    let vfs = vfs()?;
    vfs.remove_file_now(path).map_or_else(|| complete(vfs.remove_file(path)), Ok)
}
