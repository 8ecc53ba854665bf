//! The patches that have programs call the kernel directly to read, write and seek, and with a path: std's
//! functions around these calls are shorter than a call of them, or are, as those of options of `open`, once
//! the compiler knows the options.

use super::Patch;

const FILE: &str = "std/src/fs.rs";
const HERMIT_FILE: &str = "std/src/sys/fs/hermit.rs";
const DESCRIPTOR: &str = "std/src/sys/fd/hermit.rs";
const FILES: &str = "std/src/sys/fs/mod.rs";
const SYSTEM: &str = "std/src/sys/pal/hermit/mod.rs";

/// A patch that has a function inlined, whose signature is this. One outside of an `impl` is named with `fn`.
macro_rules! inlined {
    (fn $file:expr, $signature:literal) => {
        Patch { file: $file, old: concat!("\n", $signature), new: concat!("\n#[inline]\n", $signature) }
    };
    ($file:expr, $before:literal, $signature:literal) => {
        Patch {
            file: $file,
            old: concat!($before, "    ", $signature),
            new: concat!($before, "    #[inline]\n    ", $signature),
        }
    };
}

pub(super) const PATCHES: &[Patch] = &[
    inlined!(FILE, "impl Read for File {\n", "fn read(&mut self, buf: &mut [u8])"),
    inlined!(FILE, "impl Write for File {\n", "fn write(&mut self, buf: &[u8])"),
    inlined!(FILE, "impl Seek for File {\n", "fn seek(&mut self, pos: SeekFrom)"),
    inlined!(
        FILE,
        "",
        "fn write(&mut self, buf: &[u8]) -> io::Result<usize> {\n        self.inner.write(buf)\n"
    ),
    inlined!(
        FILE,
        "",
        "fn seek(&mut self, pos: SeekFrom) -> io::Result<u64> {\n        self.inner.seek(pos)\n"
    ),
    inlined!(HERMIT_FILE, "", "pub fn read(&self, buf: &mut [u8])"),
    inlined!(HERMIT_FILE, "", "pub fn write(&self, buf: &[u8])"),
    inlined!(HERMIT_FILE, "", "pub fn seek(&self, pos: SeekFrom)"),
    inlined!(DESCRIPTOR, "", "pub fn read(&self, buf: &mut [u8])"),
    inlined!(DESCRIPTOR, "", "pub fn write(&self, buf: &[u8])"),
    inlined!(DESCRIPTOR, "", "pub fn seek(&self, pos: SeekFrom)"),
    inlined!(FILE, "", "fn _open(&self, path: &Path)"),
    inlined!(HERMIT_FILE, "", "pub fn open(path: &Path, opts: &OpenOptions) -> io::Result<File>"),
    inlined!(HERMIT_FILE, "", "fn get_access_mode(&self)"),
    inlined!(HERMIT_FILE, "", "fn get_creation_mode(&self)"),
    inlined!(HERMIT_FILE, "", "fn of(fd: RawFd, path: &[u8], flags: i32) -> io::Result<Self>"),
    inlined!(fn HERMIT_FILE, "fn cvt_path(result: i32, path: &[u8])"),
    inlined!(fn HERMIT_FILE, "pub fn stat(path: &Path)"),
    inlined!(fn HERMIT_FILE, "pub fn unlink(path: &Path)"),
    inlined!(fn FILES, "pub fn metadata(path: &Path)"),
    inlined!(fn FILES, "pub fn remove_file(path: &Path)"),
    // What a failed call needs is out of the way of the others.
    Patch {
        file: SYSTEM,
        old: "pub fn cvt<T: IsNegative>(t: T) -> io::Result<T> {
    if t.is_negative() { Err(io::Error::from_raw_os_error(t.negate())) } else { Ok(t) }
}
",
        new: "#[inline]
pub fn cvt<T: IsNegative>(t: T) -> io::Result<T> {
    if t.is_negative() { Err(failure(t)) } else { Ok(t) }
}

#[cold]
#[inline(never)]
fn failure<T: IsNegative>(t: T) -> io::Error {
    io::Error::from_raw_os_error(t.negate())
}
",
    },
    Patch {
        file: SYSTEM,
        old: "        fn is_negative(&self) -> bool {
            *self < 0
",
        new: "        #[inline]
        fn is_negative(&self) -> bool {
            *self < 0
",
    },
];
