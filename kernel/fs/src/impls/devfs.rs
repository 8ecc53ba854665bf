//! The file system of device files (`/dev`).
//!
//! The file system is one directory without subdirectories. Its possible entries are fixed at compile time:
//! [`Devices::files`] lists all devices that the kernel supports. A device's index in this list determines
//! its inode number, so nothing is allocated. A directory listing shows only the devices that the machine
//! has. Opening a device file returns an [`Object`] of the driver. Reads and writes then go directly to this
//! object.

use alloc::sync::Arc;
use core::fmt::Debug;
use core::ops::ControlFlow;
use core::task::Poll;

use hermit_interface::{Errno, to_usize};
use hermit_io::Object;

use crate::interface::file_system::{Call, Capabilities, Name, OpenInode, Opened, ReadTarget, Reply};
use crate::interface::system::BLOCK_SIZE;
use crate::interface::types::FOREVER;
use crate::interface::{Attr, DirEntry, Entry, FileSystem, FileType, Ino, Lookup, StatFs, System, Time};

/// A device file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceFile {
    /// Name of the file.
    pub name: &'static str,
    /// Type of the file.
    pub file_type: FileType,
    /// Permission bits.
    pub permissions: u32,
}

/// The devices that have files. A device is named by its index in [`Self::files`].
pub trait Devices: Debug + Send + Sync {
    /// Returns the files of all devices that the kernel supports, even if the machine does not have the
    /// device.
    fn files(&self) -> &'static [DeviceFile];

    /// Returns true if the machine has the device.
    fn exists(&self, index: usize) -> bool;

    /// Opens a device with the `O_` flags of the call.
    ///
    /// # Errors
    ///
    /// `EACCES`, `ENXIO`, `ENOMEM`, or an error of the driver.
    fn open(&self, index: usize, flags: i32) -> Result<Arc<dyn Object>, Errno>;
}

/// The file system of device files.
#[derive(Debug)]
pub struct DevFs<D> {
    devices: D,
    mounted: Time,
}

/// Inode number of the first device.
const FIRST: u64 = Ino::ROOT.0 + 1;

const fn ino(index: usize) -> Ino {
    Ino(FIRST + index as u64)
}

impl<D: Devices> DevFs<D> {
    /// Creates the file system. All times of its files are the time of the mount, `mounted`.
    pub const fn new(devices: D, mounted: Time) -> Self {
        Self { devices, mounted }
    }

    fn index(&self, ino: Ino) -> Option<usize> {
        let index = to_usize(ino.0.checked_sub(FIRST)?);
        (index < self.devices.files().len()).then_some(index)
    }

    fn attr(&self, ino: Ino) -> Result<Attr, Errno> {
        let (mode, nlink) = match self.index(ino) {
            Some(index) => {
                let file = self.devices.files().get(index).ok_or(Errno::ENOENT)?;
                (file.file_type.mode() | file.permissions, 1)
            }
            None if ino == Ino::ROOT => (FileType::Directory.mode() | 0o755, 2),
            None => return Err(Errno::ENOENT),
        };
        Ok(Attr::of_empty(ino, mode, nlink, self.mounted))
    }

    fn find(&self, entry: Name<'_>) -> Result<Attr, Errno> {
        if entry.parent != Ino::ROOT {
            return Err(Errno::ENOTDIR);
        }
        let files = self.devices.files();
        let index = files.iter().position(|file| file.name.as_bytes() == entry.name);
        let ino = match index {
            Some(index) if self.devices.exists(index) => ino(index),
            None if entry.name == b".." => Ino::ROOT,
            _ => return Err(Errno::ENOENT),
        };
        self.attr(ino)
    }

    fn entries(
        &self,
        directory: Ino,
        position: u64,
        entries: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> Result<(), Errno> {
        if directory != Ino::ROOT {
            return Err(Errno::ENOTDIR);
        }
        let files = self.devices.files().iter().enumerate().skip(to_usize(position));
        for (index, file) in files.filter(|(index, _)| self.devices.exists(*index)) {
            let (ino, name, next) = (ino(index), file.name.as_bytes(), index as u64 + 1);
            if entries(DirEntry { number: ino.0, file_type: file.file_type, name, next }).is_break() {
                break;
            }
        }
        Ok(())
    }
}

impl<S: System, D: Devices> FileSystem<S> for DevFs<D> {
    fn type_name(&self) -> &'static str {
        "devtmpfs"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::FINDS_PARENTS | Capabilities::APPEND_CHANGES | Capabilities::IMMEDIATE
    }

    fn lookup(&self, _: &mut Call<'_, '_>, entry: Name<'_>) -> Reply<Lookup<S>> {
        // No device appears or disappears after the start.
        Poll::Ready(self.find(entry).map(|attr| Lookup::Found(Entry::new(attr, FOREVER))))
    }

    fn forget(&self, _ino: Ino, _references: u64) {}

    fn getattr(&self, _: &mut Call<'_, '_>, ino: Ino) -> Reply<Attr> {
        Poll::Ready(self.attr(ino))
    }

    fn open(&self, _: &mut Call<'_, '_>, ino: Ino, flags: i32) -> Reply<Opened> {
        Poll::Ready(match self.index(ino) {
            Some(index) => self.devices.open(index, flags).map(Opened::Object),
            None => Ok(Opened::Inode(0)),
        })
    }

    fn read(&self, _: &mut Call<'_, '_>, _: OpenInode, _: u64, _: &mut dyn ReadTarget) -> Reply<usize> {
        // Only the directory is opened as an inode; the device files are opened as objects.
        Poll::Ready(Err(Errno::EISDIR))
    }

    fn readdir(
        &self,
        _: &mut Call<'_, '_>,
        directory: OpenInode,
        position: u64,
        entries: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> Reply<()> {
        Poll::Ready(self.entries(directory.ino, position, entries))
    }

    fn statfs(&self, _: &mut Call<'_, '_>) -> Reply<StatFs> {
        Poll::Ready(Ok(StatFs { block_size: BLOCK_SIZE, ..StatFs::default() }))
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::{DevFs, DeviceFile, Devices};
    use crate::interface::{FileType, Time};
    use crate::testing::{TestSystem, run, vfs};
    use crate::vfs::{OpenedPath, Symlinks, Vfs};
    use alloc::sync::Arc;
    use core::ops::ControlFlow;
    use hermit_abi::{O_CREAT, O_DIRECTORY, O_RDWR};
    use hermit_interface::Errno;
    use hermit_io::Object;
    use std::vec::Vec;

    #[derive(Debug)]
    struct TestDevices;

    #[derive(Debug)]
    struct TestObject;
    impl Object for TestObject {}

    impl Devices for TestDevices {
        fn files(&self) -> &'static [DeviceFile] {
            const FILE: DeviceFile =
                DeviceFile { name: "null", file_type: FileType::CharDevice, permissions: 0o666 };
            &[FILE, DeviceFile { name: "absent", ..FILE }, DeviceFile { name: "zero", ..FILE }]
        }

        fn exists(&self, index: usize) -> bool {
            index != 1
        }

        fn open(&self, index: usize, _flags: i32) -> Result<Arc<dyn Object>, Errno> {
            if index == 0 { Ok(Arc::new(TestObject)) } else { Err(Errno::EACCES) }
        }
    }

    fn mounted() -> Vfs<TestSystem> {
        let (_, vfs) = vfs(1 << 20);
        run(vfs.create_directory(b"/dev", 0o755)).unwrap();
        run(vfs.mount(Arc::new(DevFs::new(TestDevices, Time::default())), b"/dev", false)).unwrap();
        vfs
    }

    #[test]
    fn device_is_opened_with_o_creat_and_absent_name_is_enoent() {
        let vfs = mounted();
        run(vfs.metadata(b"/dev", Symlinks::Follow)).unwrap();
        run(vfs.metadata(b"/dev/zero", Symlinks::Follow)).unwrap();
        assert!(vfs.try_open(b"/dev/null", O_CREAT | O_RDWR, 0o666).is_none());
        assert!(run(vfs.open(b"/dev/null", O_CREAT | O_RDWR, 0o666)).is_ok());
        assert!(vfs.try_remove_file(b"/dev/other").is_none());
        assert_eq!(run(vfs.remove_file(b"/dev/other")), Err(Errno::ENOENT));
    }

    #[test]
    fn existing_devices_have_files() {
        let vfs = mounted();
        let mode = |path: &[u8]| run(vfs.metadata(path, Symlinks::Follow)).map(|found| found.attr.mode);
        assert_eq!(mode(b"/dev/null"), Ok(0o2_0666));
        assert_eq!(mode(b"/dev/absent"), Err(Errno::ENOENT));
        assert_eq!(mode(b"/dev/null/x"), Err(Errno::ENOTDIR));
        assert_eq!(mode(b"/dev"), Ok(0o4_0755));
        let OpenedPath::File(directory) = run(vfs.open(b"/dev", O_DIRECTORY, 0)).unwrap() else { panic!() };
        let mut names = Vec::new();
        run(directory.read_directory(|entry| {
            names.push(entry.name.to_vec());
            ControlFlow::Continue(())
        }))
        .unwrap();
        assert_eq!(names, [b"null".to_vec(), b"zero".to_vec()]);
    }

    #[test]
    fn device_file_opens_its_object() {
        let vfs = mounted();
        assert!(matches!(run(vfs.open(b"/dev/null", O_RDWR, 0)), Ok(OpenedPath::Object(_))));
        assert_eq!(run(vfs.open(b"/dev/zero", O_RDWR, 0)).unwrap_err(), Errno::EACCES);
    }

    #[test]
    fn device_files_cannot_be_created_or_removed() {
        let vfs = mounted();
        assert_eq!(run(vfs.open(b"/dev/new", O_CREAT | O_RDWR, 0o666)).unwrap_err(), Errno::EROFS);
        assert_eq!(run(vfs.remove_file(b"/dev/null")), Err(Errno::EROFS));
        assert_eq!(run(vfs.create_directory(b"/dev/new", 0o777)), Err(Errno::EROFS));
        assert_eq!(run(vfs.remove_directory(b"/dev")), Err(Errno::EBUSY));
    }

    #[test]
    fn mounts_are_listed_with_their_paths_as_they_are_now() {
        let vfs = mounted();
        run(vfs.create_directory(b"/dev-above", 0o755)).unwrap();
        run(vfs.create_directory(b"/dev-above/x", 0o755)).unwrap();
        run(vfs.mount(Arc::new(DevFs::new(TestDevices, Time::default())), b"/dev-above/x", true)).unwrap();
        run(vfs.rename(b"/dev-above", b"/renamed", crate::RenameFlags::empty())).unwrap();
        let mounts = run(vfs.mounts()).unwrap();
        let found: Vec<_> =
            mounts.iter().map(|mount| (mount.type_name, mount.path.as_slice(), mount.is_read_only)).collect();
        let expected: [(&str, &[u8], bool); 3] =
            [("tmpfs", b"/", false), ("devtmpfs", b"/dev", false), ("devtmpfs", b"/renamed/x", true)];
        assert_eq!(found, expected);
    }

    #[test]
    fn parent_of_a_mount_is_that_of_the_covered_directory() {
        let vfs = mounted();
        run(vfs.create_directory(b"/tmp", 0o777)).unwrap();
        run(vfs.change_directory(b"/dev/../tmp/../dev")).unwrap();
        assert_eq!(run(vfs.current_path()).unwrap(), b"/dev");
        assert_eq!(run(vfs.real_path(b"../tmp/./.")).unwrap(), b"/tmp");
        assert_eq!(run(vfs.real_path(b"null")).unwrap(), b"/dev/null");
        assert_eq!(run(vfs.real_path(b"/..")).unwrap(), b"/");
        assert_eq!(
            run(vfs.rename(b"/dev/null", b"/tmp/null", crate::RenameFlags::empty())),
            Err(Errno::EXDEV)
        );
    }
}
