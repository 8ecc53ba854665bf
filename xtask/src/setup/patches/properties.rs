//! The patches to std's properties of files, locks and pipes, and `std::os::hermit::fs`.

use super::Patch;

const FILES: &str = "std/src/sys/fs/hermit.rs";
const DESCRIPTORS: &str = "std/src/sys/fd/hermit.rs";
const SYSTEM: &str = "std/src/sys/pal/hermit/os.rs";
const PROCESSES: &str = "std/src/sys/process/unsupported.rs";
const PIPES: &str = "std/src/sys/pipe/mod.rs";
const PLATFORM: &str = "std/src/os/hermit/mod.rs";

pub(super) const PATCHES: &[Patch] = &[
    // The properties have the time of the creation.
    Patch {
        file: FILES,
        old: "pub struct FileAttr {
    stat_val: stat_struct,
}

impl FileAttr {
    fn from_stat(stat_val: stat_struct) -> Self {
        Self { stat_val }
    }
}
",
        new: "pub struct FileAttr {
    found: hermit_abi::file_properties,
}

impl FileAttr {
    fn of(fd: RawFd, path: &[u8], flags: i32) -> io::Result<Self> {
        let mut found = mem::MaybeUninit::uninit();
        // SAFETY: the path has this length, and there is memory for the result.
        let result = unsafe {
            hermit_abi::get_properties(fd, path.as_ptr(), path.len(), flags, found.as_mut_ptr())
        };
        cvt_path(result, path)?;
        // SAFETY: the call has stored a result, as it has not failed.
        Ok(Self { found: unsafe { found.assume_init() } })
    }

    pub fn properties(&self) -> &hermit_abi::file_properties {
        &self.found
    }
}

/// The result of a call with the bytes of a path, which the kernel does not accept with a zero byte.
fn cvt_path(result: i32, path: &[u8]) -> io::Result<i32> {
    if result < 0 { Err(path_error(result, path)) } else { Ok(result) }
}

#[cold]
fn path_error(result: i32, path: &[u8]) -> Error {
    if path.contains(&0) {
        return io::const_error!(ErrorKind::InvalidInput, \"file name contained an unexpected NUL byte\");
    }
    Error::from_raw_os_error(-result)
}

fn time(seconds: i64, nanoseconds: u32) -> SystemTime {
    SystemTime::new(seconds, nanoseconds as i32)
}
",
    },
    Patch {
        file: FILES,
        old: "        Ok(SystemTime::new(self.stat_val.st_mtim.tv_sec, self.stat_val.st_mtim.tv_nsec))
",
        new: "        Ok(time(self.found.mtime, self.found.mtime_nsec))
",
    },
    Patch {
        file: FILES,
        old: "        Ok(SystemTime::new(self.stat_val.st_atim.tv_sec, self.stat_val.st_atim.tv_nsec))
",
        new: "        Ok(time(self.found.atime, self.found.atime_nsec))
",
    },
    Patch {
        file: FILES,
        old: "        Ok(SystemTime::new(self.stat_val.st_ctim.tv_sec, self.stat_val.st_ctim.tv_nsec))
",
        new: "        if self.found.btime_nsec == u32::MAX {
            return Err(io::const_error!(ErrorKind::Unsupported, \"the file has no time of creation\"));
        }
        Ok(time(self.found.btime, self.found.btime_nsec))
",
    },
    Patch {
        file: FILES,
        old: "        self.stat_val.st_size as u64
",
        new: "        self.found.size
",
    },
    Patch {
        file: FILES,
        old: "        FilePermissions { mode: self.stat_val.st_mode }
",
        new: "        FilePermissions { mode: self.found.mode }
",
    },
    // Devices and pipes have types of their own.
    Patch {
        file: FILES,
        old: "        let masked_mode = self.stat_val.st_mode & S_IFMT;
        let mode = match masked_mode {
            S_IFDIR => DT_DIR,
            S_IFLNK => DT_LNK,
            S_IFREG => DT_REG,
            _ => DT_UNKNOWN,
        };
        FileType { mode }
",
        new: "        // The `DT_` numbers are those of the mode.
        FileType { mode: (self.found.mode >> 12) as u8 }
",
    },
    Patch {
        file: FILES,
        old: "    pub fn is_symlink(&self) -> bool {
        self.mode == DT_LNK
    }
",
        new: "    pub fn is_symlink(&self) -> bool {
        self.mode == DT_LNK
    }

    /// Whether the type is that of a `DT_` number.
    pub fn is(&self, number: u8) -> bool {
        self.mode == number
    }
",
    },
    Patch {
        file: FILES,
        old: "    self, DT_DIR, DT_LNK, DT_REG, DT_UNKNOWN, O_APPEND, O_CREAT, O_DIRECTORY, O_EXCL, O_RDONLY,
    O_RDWR, O_TRUNC, O_WRONLY, S_IFDIR, S_IFLNK, S_IFMT, S_IFREG, dirent64, stat as stat_struct,
",
        new: "    self, DT_DIR, DT_LNK, DT_REG, O_APPEND, O_CREAT, O_DIRECTORY, O_EXCL, O_RDONLY, O_RDWR, O_TRUNC,
    O_WRONLY, dirent64,
",
    },
    Patch {
        file: FILES,
        old: "        let mut stat_val: stat_struct = unsafe { mem::zeroed() };
        self.0.fstat(&mut stat_val)?;
        Ok(FileAttr::from_stat(stat_val))
",
        new: "        FileAttr::of(self.as_raw_fd(), b\"\", hermit_abi::AT_EMPTY_PATH)
",
    },
    Patch {
        file: FILES,
        old: "    run_path_with_cstr(path, &|path| {
        let mut stat_val: stat_struct = unsafe { mem::zeroed() };
        cvt(unsafe { hermit_abi::stat(path.as_ptr(), &mut stat_val) })?;
        Ok(FileAttr::from_stat(stat_val))
    })
",
        new: "    FileAttr::of(hermit_abi::AT_FDCWD, path.as_os_str().as_encoded_bytes(), 0)
",
    },
    Patch {
        file: FILES,
        old: "    run_path_with_cstr(path, &|path| {
        let mut stat_val: stat_struct = unsafe { mem::zeroed() };
        cvt(unsafe { hermit_abi::lstat(path.as_ptr(), &mut stat_val) })?;
        Ok(FileAttr::from_stat(stat_val))
    })
",
        new: "    let path = path.as_os_str().as_encoded_bytes();
    FileAttr::of(hermit_abi::AT_FDCWD, path, hermit_abi::AT_SYMLINK_NOFOLLOW)
",
    },
    Patch {
        file: FILES,
        old: "    #[allow(dead_code)]
    pub fn mode(&self) -> u32 {
        self.mode as u32
    }
",
        new: "    pub fn mode(&self) -> u32 {
        self.mode
    }

    pub fn of_mode(mode: u32) -> Self {
        Self { mode }
    }
",
    },
    // Options of `open` beyond those of every platform.
    Patch {
        file: FILES,
        old: "    create_new: bool,
    // system-specific
    mode: i32,
}
",
        new: "    create_new: bool,
    // system-specific
    mode: i32,
    custom_flags: i32,
}
",
    },
    Patch {
        file: FILES,
        old: "    fn get_access_mode(&self) -> io::Result<i32> {
",
        new: "    pub fn mode(&mut self, mode: u32) {
        self.mode = mode as i32;
    }

    pub fn custom_flags(&mut self, flags: i32) {
        self.custom_flags = flags;
    }

    fn get_access_mode(&self) -> io::Result<i32> {
",
    },
    Patch {
        file: FILES,
        old: "        flags = flags | opts.get_creation_mode()?;
",
        new: "        flags = flags | opts.get_creation_mode()? | opts.custom_flags & !(O_WRONLY | O_RDWR);
",
    },
    // Advisory locks.
    Patch {
        file: FILES,
        old: "    pub fn lock(&self) -> io::Result<()> {
        unsupported()
    }

    pub fn lock_shared(&self) -> io::Result<()> {
        unsupported()
    }

    pub fn try_lock(&self) -> Result<(), TryLockError> {
        Err(TryLockError::Error(unsupported_err()))
    }

    pub fn try_lock_shared(&self) -> Result<(), TryLockError> {
        Err(TryLockError::Error(unsupported_err()))
    }

    pub fn unlock(&self) -> io::Result<()> {
        unsupported()
    }
",
        new: "    fn flock(&self, operation: i32) -> io::Result<()> {
        // SAFETY: any numbers may be passed.
        cvt(unsafe { hermit_abi::flock(self.as_raw_fd(), operation) }).map(drop)
    }

    fn try_flock(&self, operation: i32) -> Result<(), TryLockError> {
        self.flock(operation | hermit_abi::LOCK_NB).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => TryLockError::WouldBlock,
            _ => TryLockError::Error(error),
        })
    }

    pub fn lock(&self) -> io::Result<()> {
        self.flock(hermit_abi::LOCK_EX)
    }

    pub fn lock_shared(&self) -> io::Result<()> {
        self.flock(hermit_abi::LOCK_SH)
    }

    pub fn try_lock(&self) -> Result<(), TryLockError> {
        self.try_flock(hermit_abi::LOCK_EX)
    }

    pub fn try_lock_shared(&self) -> Result<(), TryLockError> {
        self.try_flock(hermit_abi::LOCK_SH)
    }

    pub fn unlock(&self) -> io::Result<()> {
        self.flock(hermit_abi::LOCK_UN)
    }
",
    },
    Patch {
        file: FILES,
        old: "use crate::sys::{AsInner, AsInnerMut, FromInner, IntoInner, cvt, unsupported, unsupported_err};
",
        new: "use crate::sys::{AsInner, AsInnerMut, FromInner, IntoInner, cvt};
",
    },
    // Pipes.
    Patch {
        file: PIPES,
        old: "    target_os = \"motor\" => {
",
        new: "    target_os = \"hermit\" => {
        pub type Pipe = crate::sys::fd::FileDesc;

        pub fn pipe() -> crate::io::Result<(Pipe, Pipe)> {
            use crate::os::fd::FromRawFd as _;
            let mut fds = [0; 2];
            // SAFETY: there is memory for two numbers.
            crate::sys::cvt(unsafe { hermit_abi::pipe(&raw mut fds, hermit_abi::O_CLOEXEC) })?;
            // SAFETY: both are new descriptors, which no other value owns.
            Ok(unsafe { (Pipe::from_raw_fd(fds[0]), Pipe::from_raw_fd(fds[1])) })
        }
    }
    target_os = \"motor\" => {
",
    },
    Patch {
        file: DESCRIPTORS,
        old: "    pub fn duplicate(&self) -> io::Result<FileDesc> {
        self.duplicate_path(&[])
    }

    pub fn duplicate_path(&self, _path: &[u8]) -> io::Result<FileDesc> {
        unsupported()
    }
",
        new: "    pub fn try_clone(&self) -> io::Result<FileDesc> {
        Ok(Self { fd: self.fd.try_clone()? })
    }

    /// For the output of a child process: there is none.
    pub fn diverge(&self) -> ! {
        unreachable!()
    }
",
    },
    Patch {
        file: PROCESSES,
        old: "    fn from(pipe: ChildPipe) -> Stdio {
        pipe.diverge()
    }
",
        new: "    fn from(pipe: ChildPipe) -> Stdio {
        Stdio::InheritFile(crate::sys::FromInner::from_inner(pipe))
    }
",
    },
    Patch {
        file: SYSTEM,
        old: "pub fn current_exe() -> io::Result<PathBuf> {
    unsupported()
}
",
        new: "pub fn current_exe() -> io::Result<PathBuf> {
    crate::fs::read_link(\"/proc/self/exe\")
}
",
    },
    Patch {
        file: SYSTEM,
        old: "use crate::sys::unsupported;
",
        new: "",
    },
    Patch {
        file: PLATFORM,
        old: "pub mod ffi;
",
        new: concat!(
            "pub mod ffi;\n#[stable(feature = \"hermit_fs\", since = \"1.95.0\")]\npub mod fs {\n",
            include_str!("hermit_fs.rs"),
            "}\n"
        ),
    },
    Patch {
        file: PLATFORM,
        old: "    pub use super::ffi::{OsStrExt, OsStringExt};
",
        new: "    pub use super::ffi::{OsStrExt, OsStringExt};
    #[doc(no_inline)]
    #[stable(feature = \"hermit_fs\", since = \"1.95.0\")]
    pub use super::fs::{
        DirBuilderExt, DirEntryExt, FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt,
    };
",
    },
];
