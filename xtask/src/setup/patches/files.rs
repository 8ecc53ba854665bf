//! The patches to std's `File`: the operations that the kernel has and std's hermit backend has not.

use super::Patch;

const FILES: &str = "std/src/sys/fs/hermit.rs";
const TIMES: &str = "std/src/sys/time/hermit.rs";

pub(super) const PATCHES: &[Patch] = &[
    // Permissions and times can be changed.
    Patch {
        file: FILES,
        old: "    pub fn set_readonly(&mut self, _readonly: bool) {
        unimplemented!()
    }
",
        new: "    pub fn set_readonly(&mut self, readonly: bool) {
        if readonly {
            self.mode &= !0o222;
        } else {
            self.mode |= 0o222;
        }
    }
",
    },
    Patch {
        file: FILES,
        old: "pub struct FileTimes {}
",
        new: "pub struct FileTimes {
    accessed: Option<SystemTime>,
    modified: Option<SystemTime>,
}
",
    },
    Patch {
        file: FILES,
        old: "    pub fn set_accessed(&mut self, _t: SystemTime) {}
    pub fn set_modified(&mut self, _t: SystemTime) {}
}
",
        new: "    pub fn set_accessed(&mut self, t: SystemTime) {
        self.accessed = Some(t);
    }

    pub fn set_modified(&mut self, t: SystemTime) {
        self.modified = Some(t);
    }

    /// The times as the kernel takes them.
    fn to_abi(self) -> [hermit_abi::timespec; 2] {
        let omitted = hermit_abi::timespec { tv_sec: 0, tv_nsec: hermit_abi::UTIME_OMIT };
        [self.accessed, self.modified].map(|time| time.map_or(omitted, SystemTime::to_timespec))
    }
}
",
    },
    Patch {
        file: TIMES,
        old: "    pub fn sub_time(&self, other: &SystemTime)",
        new: "    pub fn to_timespec(self) -> hermit_abi::timespec {
        self.0.t
    }

    pub fn sub_time(&self, other: &SystemTime)",
    },
    Patch {
        file: FILES,
        old: "    pub fn set_permissions(&self, _perm: FilePermissions) -> io::Result<()> {
        Err(Error::from_raw_os_error(22))
    }

    pub fn set_times(&self, _times: FileTimes) -> io::Result<()> {
        Err(Error::from_raw_os_error(22))
    }
",
        new: "    pub fn set_permissions(&self, perm: FilePermissions) -> io::Result<()> {
        // SAFETY: any number may be passed.
        cvt(unsafe { hermit_abi::fchmod(self.as_raw_fd(), perm.mode) }).map(drop)
    }

    pub fn set_times(&self, times: FileTimes) -> io::Result<()> {
        // SAFETY: there are two times.
        cvt(unsafe { hermit_abi::futimens(self.as_raw_fd(), times.to_abi().as_ptr()) }).map(drop)
    }
",
    },
    Patch {
        file: FILES,
        old: "pub fn set_perm(_p: &Path, _perm: FilePermissions) -> io::Result<()> {
    Err(Error::from_raw_os_error(22))
}

pub fn set_times(_p: &Path, _times: FileTimes) -> io::Result<()> {
    Err(Error::from_raw_os_error(22))
}

pub fn set_times_nofollow(_p: &Path, _times: FileTimes) -> io::Result<()> {
    Err(Error::from_raw_os_error(22))
}
",
        new: "pub fn set_perm(p: &Path, perm: FilePermissions) -> io::Result<()> {
    // SAFETY: the path ends with 0.
    run_path_with_cstr(p, &|p| cvt(unsafe { hermit_abi::chmod(p.as_ptr(), perm.mode) }).map(drop))
}

pub fn set_times(p: &Path, times: FileTimes) -> io::Result<()> {
    set_path_times(p, times, 0)
}

pub fn set_times_nofollow(p: &Path, times: FileTimes) -> io::Result<()> {
    set_path_times(p, times, hermit_abi::AT_SYMLINK_NOFOLLOW)
}

fn set_path_times(p: &Path, times: FileTimes, flags: i32) -> io::Result<()> {
    let times = times.to_abi();
    // SAFETY: the path ends with 0, and there are two times.
    run_path_with_cstr(p, &|p| cvt(unsafe { hermit_abi::utimens(p.as_ptr(), times.as_ptr(), flags) }).map(drop))
}
",
    },
    // New files cannot be executed.
    Patch {
        file: FILES,
        old: "            create_new: false,
            // system-specific
            mode: 0o777,
",
        new: "            create_new: false,
            // system-specific
            mode: 0o666,
            custom_flags: 0,
",
    },
    Patch {
        file: FILES,
        old: "    pub fn datasync(&self) -> io::Result<()> {
        self.fsync()
    }
",
        new: "    pub fn datasync(&self) -> io::Result<()> {
        // SAFETY: any number may be passed.
        cvt(unsafe { hermit_abi::fdatasync(self.as_raw_fd()) }).map(drop)
    }
",
    },
    Patch {
        file: FILES,
        old: "    pub fn truncate(&self, _size: u64) -> io::Result<()> {
        Err(Error::from_raw_os_error(22))
    }
",
        new: "    pub fn truncate(&self, size: u64) -> io::Result<()> {
        let size = i64::try_from(size).map_err(|_| Error::from(ErrorKind::InvalidInput))?;
        // SAFETY: any numbers may be passed.
        cvt(unsafe { hermit_abi::ftruncate(self.as_raw_fd(), size) }).map(drop)
    }
",
    },
    Patch {
        file: FILES,
        old: "    pub fn duplicate(&self) -> io::Result<File> {
        Err(Error::from_raw_os_error(22))
    }
",
        new: "    pub fn duplicate(&self) -> io::Result<File> {
        let fd = self.as_fd().try_clone_to_owned()?;
        // SAFETY: the descriptor is open, and no other value owns it.
        Ok(unsafe { File::from_raw_fd(fd.into_raw_fd()) })
    }
",
    },
    // Options that contradict each other have the messages of the other systems.
    Patch {
        file: FILES,
        old: "                Err(io::const_error!(ErrorKind::InvalidInput, \"invalid access mode\"))
",
        new: "                Err(if self.create || self.create_new || self.truncate {
                    WITHOUT_WRITING
                } else {
                    io::const_error!(
                        ErrorKind::InvalidInput,
                        \"must specify at least one of read, write, or append access\"
                    )
                })
",
    },
    Patch {
        file: FILES,
        old: "                if self.truncate || self.create || self.create_new {
                    return Err(io::const_error!(ErrorKind::InvalidInput, \"invalid creation mode\"));
",
        new: "                if self.truncate || self.create || self.create_new {
                    return Err(WITHOUT_WRITING);
",
    },
    Patch {
        file: FILES,
        old: "                if self.truncate && !self.create_new {
                    return Err(io::const_error!(ErrorKind::InvalidInput, \"invalid creation mode\"));
",
        new: "                if self.truncate && !self.create_new {
                    return Err(WITHOUT_WRITING);
",
    },
    Patch {
        file: FILES,
        old: "impl OpenOptions {
    pub fn new() -> OpenOptions {
",
        new: "/// The error for options that would create or truncate a file, and do not write to it.
const WITHOUT_WRITING: Error = io::const_error!(
    ErrorKind::InvalidInput,
    \"creating or truncating a file requires write or append access\"
);

impl OpenOptions {
    pub fn new() -> OpenOptions {
",
    },
];
