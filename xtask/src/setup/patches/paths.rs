//! The patches to std's directories, links and lists of paths, and to its current directory.

use super::Patch;

const FILES: &str = "std/src/sys/fs/hermit.rs";
const SYSTEM: &str = "std/src/sys/pal/hermit/os.rs";

pub(super) const PATCHES: &[Patch] = &[
    Patch {
        file: FILES,
        old: "pub use crate::sys::fs::common::{Dir, copy, exists};
",
        new: "pub use crate::sys::fs::common::{Dir, copy, exists, remove_dir_all};
use crate::sys::pal::os::stored_path;
",
    },
    Patch {
        file: FILES,
        old: "pub fn remove_dir_all(_path: &Path) -> io::Result<()> {
    unsupported()
}

",
        new: "",
    },
    // Entries of directories are read as the program asks for them, so their number has no limit.
    Patch {
        file: FILES,
        old: "// all DirEntry's will have a reference to this struct
struct InnerReadDir {
    root: PathBuf,
    dir: Vec<u8>,
}

impl InnerReadDir {
    pub fn new(root: PathBuf, dir: Vec<u8>) -> Self {
        Self { root, dir }
    }
}

pub struct ReadDir {
    inner: Arc<InnerReadDir>,
    pos: usize,
}

impl ReadDir {
    fn new(inner: InnerReadDir) -> Self {
        Self { inner: Arc::new(inner), pos: 0 }
    }
}

pub struct DirEntry {
    /// path to the entry
    root: PathBuf,
",
        new: "/// Size of the buffer for entries of a directory, in bytes.
const ENTRIES_SIZE: usize = 4096;

pub struct ReadDir {
    root: Arc<PathBuf>,
    fd: FileDesc,
    /// Entries as the kernel stores them.
    entries: Vec<u8>,
    /// Where the next entry begins.
    pos: usize,
    is_at_end: bool,
}

pub struct DirEntry {
    /// path to the entry
    root: Arc<PathBuf>,
",
    },
    Patch {
        file: FILES,
        old: "        fmt::Debug::fmt(&*self.inner.root, f)
",
        new: "        fmt::Debug::fmt(&*self.root, f)
",
    },
    Patch {
        file: FILES,
        old: "        let mut counter: usize = 0;
        let mut offset: usize = 0;

        // loop over all directory entries and search the entry for the current position
        loop {
            // leave function, if the loop reaches the of the buffer (with all entries)
            if offset >= self.inner.dir.len() {
                return None;
            }

            let dir = unsafe { &*(self.inner.dir.as_ptr().add(offset) as *const dirent64) };

            if counter == self.pos {
                self.pos += 1;

                // After dirent64, the file name is stored. d_reclen represents the length of the dirent64
                // plus the length of the file name. Consequently, file name has a size of d_reclen minus
                // the size of dirent64. The file name is always a C string and terminated by `\\0`.
                // Consequently, we are able to ignore the last byte.
                let name_bytes =
                    unsafe { CStr::from_ptr(&dir.d_name as *const _ as *const c_char).to_bytes() };
                let entry = DirEntry {
                    root: self.inner.root.clone(),
                    ino: dir.d_ino,
                    type_: dir.d_type,
                    name: OsString::from_vec(name_bytes.to_vec()),
                };

                return Some(Ok(entry));
            }

            counter += 1;

            // move to the next dirent64, which is directly stored after the previous one
            offset = offset + usize::from(dir.d_reclen);
        }
    }
}
",
        new: "        if self.pos >= self.entries.len() && !self.is_at_end {
            if let Err(error) = self.read_entries() {
                self.is_at_end = true;
                return Some(Err(error));
            }
        }
        let entry = self.entries.get(self.pos..).filter(|entry| !entry.is_empty())?;
        let number = |offset, size| {
            let mut bytes = [0; 8];
            bytes[..size].copy_from_slice(&entry[offset..offset + size]);
            u64::from_ne_bytes(bytes)
        };
        self.pos += number(mem::offset_of!(dirent64, d_reclen), 2) as usize;
        let name = entry[mem::offset_of!(dirent64, d_name)..].split(|byte| *byte == 0).next();
        Some(Ok(DirEntry {
            root: self.root.clone(),
            ino: number(mem::offset_of!(dirent64, d_ino), 8),
            type_: entry[mem::offset_of!(dirent64, d_type)],
            name: OsString::from_vec(name.unwrap_or_default().to_vec()),
        }))
    }
}

impl ReadDir {
    /// Reads the next entries; none are left if there are none then.
    fn read_entries(&mut self) -> io::Result<()> {
        self.pos = 0;
        self.entries.resize(ENTRIES_SIZE, 0);
        // SAFETY: the buffer has this length.
        let count = cvt(unsafe {
            hermit_abi::getdents(self.fd.as_raw_fd(), self.entries.as_mut_ptr(), ENTRIES_SIZE)
        });
        self.entries.truncate(*count.as_ref().unwrap_or(&0) as usize);
        self.is_at_end = self.entries.is_empty();
        count.map(drop)
    }
}
",
    },
    Patch {
        file: FILES,
        old: "    let root = path.to_path_buf();

    // read all director entries
    let mut vec: Vec<u8> = Vec::new();
    let mut sz = 512;
    loop {
        // reserve memory to receive all directory entries
        vec.resize(sz, 0);

        let readlen = unsafe {
            hermit_abi::getdents64(fd.as_raw_fd(), vec.as_mut_ptr() as *mut dirent64, sz)
        };
        if readlen > 0 {
            // shrink down to the minimal size
            vec.resize(readlen.try_into().unwrap(), 0);
            break;
        }

        // if the buffer is too small, getdents64 returns EINVAL
        // otherwise, getdents64 returns an error number
        if readlen != (-hermit_abi::errno::EINVAL).into() {
            return Err(Error::from_raw_os_error(readlen.try_into().unwrap()));
        }

        // we don't have enough memory => try to increase the vector size
        sz = sz * 2;

        // 1 MB for directory entries should be enough
        // stop here to avoid an endless loop
        if sz > 0x100000 {
            return Err(Error::from(ErrorKind::Uncategorized));
        }
    }

    Ok(ReadDir::new(InnerReadDir::new(root, vec)))
",
        new: "    let root = Arc::new(path.to_path_buf());
    Ok(ReadDir { root, fd, entries: Vec::new(), pos: 0, is_at_end: false })
",
    },
    Patch {
        file: FILES,
        old: "pub fn rename(_old: &Path, _new: &Path) -> io::Result<()> {
    unsupported()
}
",
        new: "/// Calls a function with two paths that end with 0.
fn with_paths(
    first: &Path,
    second: &Path,
    call: unsafe extern \"C\" fn(*const c_char, *const c_char) -> i32,
) -> io::Result<()> {
    run_path_with_cstr(first, &|first| {
        run_path_with_cstr(second, &|second| {
            // SAFETY: both paths end with 0, as the functions of the ABI require.
            cvt(unsafe { call(first.as_ptr(), second.as_ptr()) }).map(drop)
        })
    })
}

pub fn rename(old: &Path, new: &Path) -> io::Result<()> {
    with_paths(old, new, hermit_abi::rename)
}
",
    },
    Patch {
        file: FILES,
        old: "pub fn readlink(_p: &Path) -> io::Result<PathBuf> {
    unsupported()
}

pub fn symlink(_original: &Path, _link: &Path) -> io::Result<()> {
    unsupported()
}

pub fn link(_original: &Path, _link: &Path) -> io::Result<()> {
    unsupported()
}
",
        new: "pub fn readlink(p: &Path) -> io::Result<PathBuf> {
    run_path_with_cstr(p, &|p| {
        // SAFETY: the path ends with 0, and the buffer has this size.
        stored_path(|buffer, size| unsafe { hermit_abi::readlink(p.as_ptr(), buffer, size) })
    })
}

pub fn symlink(original: &Path, link: &Path) -> io::Result<()> {
    with_paths(original, link, hermit_abi::symlink)
}

pub fn link(original: &Path, link: &Path) -> io::Result<()> {
    with_paths(original, link, hermit_abi::link)
}
",
    },
    Patch {
        file: FILES,
        old: "pub fn canonicalize(_p: &Path) -> io::Result<PathBuf> {
    unsupported()
}
",
        new: "pub fn canonicalize(p: &Path) -> io::Result<PathBuf> {
    run_path_with_cstr(p, &|p| {
        // SAFETY: the path ends with 0, and the buffer has this size.
        stored_path(|buffer, size| unsafe { hermit_abi::realpath(p.as_ptr(), buffer, size) })
    })
}
",
    },
    // The current directory, and lists of paths.
    Patch {
        file: SYSTEM,
        old: "pub fn getcwd() -> io::Result<PathBuf> {
    Ok(PathBuf::from(\"/\"))
}

pub fn chdir(_: &path::Path) -> io::Result<()> {
    unsupported()
}

pub struct SplitPaths<'a>(!, PhantomData<&'a ()>);

pub fn split_paths(_unparsed: &OsStr) -> SplitPaths<'_> {
    panic!(\"unsupported\")
}

impl<'a> Iterator for SplitPaths<'a> {
    type Item = PathBuf;
    fn next(&mut self) -> Option<PathBuf> {
        self.0
    }
}

#[derive(Debug)]
pub struct JoinPathsError;

pub fn join_paths<I, T>(_paths: I) -> Result<OsString, JoinPathsError>
where
    I: Iterator<Item = T>,
    T: AsRef<OsStr>,
{
    Err(JoinPathsError)
}
",
        new: "/// Maximum length of a path in bytes.
const MAX_PATH: usize = 4096;

/// The path that a function of the kernel stores.
pub(crate) fn stored_path(call: impl Fn(*mut u8, usize) -> isize) -> io::Result<PathBuf> {
    let mut bytes = vec![0; MAX_PATH];
    let length = crate::sys::cvt(call(bytes.as_mut_ptr(), bytes.len()))?;
    bytes.truncate(length as usize);
    Ok(PathBuf::from(OsString::from_vec(bytes)))
}

pub fn getcwd() -> io::Result<PathBuf> {
    // SAFETY: the buffer has this size.
    stored_path(|buffer, size| unsafe { hermit_abi::getcwd(buffer, size) })
}

pub fn chdir(path: &path::Path) -> io::Result<()> {
    crate::sys::helpers::run_path_with_cstr(path, &|path| {
        // SAFETY: the path ends with 0.
        crate::sys::cvt(unsafe { hermit_abi::chdir(path.as_ptr()) }).map(drop)
    })
}

/// Between the paths of a list.
const SEPARATOR: u8 = b':';

/// The paths of a list; `None` behind the last.
pub struct SplitPaths<'a>(Option<&'a [u8]>);

pub fn split_paths(unparsed: &OsStr) -> SplitPaths<'_> {
    SplitPaths(Some(unparsed.as_bytes()))
}

impl<'a> Iterator for SplitPaths<'a> {
    type Item = PathBuf;
    fn next(&mut self) -> Option<PathBuf> {
        let list = self.0?;
        let end = list.iter().position(|byte| *byte == SEPARATOR);
        self.0 = end.map(|end| &list[end + 1..]);
        Some(PathBuf::from(OsStr::from_bytes(&list[..end.unwrap_or(list.len())])))
    }
}

#[derive(Debug)]
pub struct JoinPathsError;

pub fn join_paths<I, T>(paths: I) -> Result<OsString, JoinPathsError>
where
    I: Iterator<Item = T>,
    T: AsRef<OsStr>,
{
    let mut joined = Vec::new();
    for (index, path) in paths.enumerate() {
        let path = path.as_ref().as_bytes();
        if path.contains(&SEPARATOR) {
            return Err(JoinPathsError);
        }
        if index > 0 {
            joined.push(SEPARATOR);
        }
        joined.extend_from_slice(path);
    }
    Ok(OsString::from_vec(joined))
}
",
    },
    Patch {
        file: SYSTEM,
        old: "        \"not supported on hermit yet\".fmt(f)
",
        new: "        write!(f, \"path segment contains separator `{}`\", char::from(SEPARATOR))
",
    },
    Patch {
        file: SYSTEM,
        old: "use crate::marker::PhantomData;
",
        new: "use crate::os::hermit::ffi::{OsStrExt as _, OsStringExt as _};
",
    },
    Patch {
        file: SYSTEM,
        old: "    PathBuf::from(\"/tmp\")
}

pub fn home_dir() -> Option<PathBuf> {
    None
}
",
        new: "    crate::env::var_os(\"TMPDIR\").map_or_else(|| PathBuf::from(\"/tmp\"), PathBuf::from)
}

pub fn home_dir() -> Option<PathBuf> {
    crate::env::var_os(\"HOME\").map(PathBuf::from)
}
",
    },
];
