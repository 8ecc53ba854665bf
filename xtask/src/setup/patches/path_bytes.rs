//! The patches to std's functions that open, list and remove files: they pass paths with their length, so
//! neither std nor the kernel looks for the end of one. Those for properties of files are with the other
//! patches to these.

use super::Patch;

const FILES: &str = "std/src/sys/fs/hermit.rs";

pub(super) const PATCHES: &[Patch] = &[
    Patch {
        file: FILES,
        old: "        run_path_with_cstr(path, &|path| File::open_c(&path, opts))
    }

    pub fn open_c(path: &CStr, opts: &OpenOptions) -> io::Result<File> {
",
        new: "        let path = path.as_os_str().as_encoded_bytes();
",
    },
    Patch {
        file: FILES,
        old: "        let fd = unsafe { cvt(hermit_abi::open(path.as_ptr(), flags, mode))? };
        Ok(File(unsafe { FileDesc::from_raw_fd(fd as i32) }))
",
        new: "        // SAFETY: the path has this length.
        let result = unsafe { hermit_abi::open_path(path.as_ptr(), path.len(), flags, mode) };
        let fd = cvt_path(result, path)?;
        // SAFETY: the descriptor is new: no other value owns it.
        Ok(File(unsafe { FileDesc::from_raw_fd(fd) }))
",
    },
    Patch {
        file: FILES,
        old: "    run_path_with_cstr(path, &|path| cvt(unsafe { hermit_abi::unlink(path.as_ptr()) }).map(|_| ()))
",
        new: "    let path = path.as_os_str().as_encoded_bytes();
    // SAFETY: the path has this length.
    cvt_path(unsafe { hermit_abi::unlink_path(path.as_ptr(), path.len()) }, path).map(drop)
",
    },
    Patch {
        file: FILES,
        old: "    let fd_raw = run_path_with_cstr(path, &|path| {
        cvt(unsafe { hermit_abi::open(path.as_ptr(), O_RDONLY | O_DIRECTORY, 0) })
    })?;
    let fd = unsafe { FileDesc::from_raw_fd(fd_raw as i32) };
",
        new: "    let bytes = path.as_os_str().as_encoded_bytes();
    // SAFETY: the path has this length.
    let result = unsafe {
        hermit_abi::open_path(bytes.as_ptr(), bytes.len(), O_RDONLY | O_DIRECTORY, 0)
    };
    // SAFETY: the descriptor is new: no other value owns it.
    let fd = unsafe { FileDesc::from_raw_fd(cvt_path(result, bytes)?) };
",
    },
    Patch {
        file: FILES,
        old: "use crate::ffi::{CStr, OsStr, OsString, c_char};
",
        new: "use crate::ffi::{OsStr, OsString, c_char};
",
    },
];
