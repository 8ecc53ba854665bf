//! The patches to std, applied to the copy of its sources that is built.
//!
//! A patch replaces a text that occurs exactly once in a file. If the text is missing, the sources are of
//! another version than the patch was written for, and the patch must be revised.

mod descriptor_calls;
mod environment;
mod exit;
mod files;
mod mathematics;
mod memory_functions;
mod path_bytes;
mod paths;
mod properties;
mod short_paths;
mod tests_in_machines;
mod unwinding;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use crate::digest::hex;

pub(crate) use tests_in_machines::TEST_LIST;

/// A replacement in a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patch {
    /// The file, in rust's `library` folder or that of a crate.
    pub(super) file: &'static str,
    /// The original text.
    pub(super) old: &'static str,
    /// The replacement.
    pub(super) new: &'static str,
}

const THREADS: &str = "std/src/sys/thread/mod.rs";
const HERMIT_THREADS: &str = "std/src/sys/thread/hermit.rs";
const HERMIT_HEAP: &str = "std/src/sys/alloc/hermit.rs";
const HERMIT_SYSTEM: &str = "std/src/sys/pal/hermit/mod.rs";
const HERMIT_ERRORS: &str = "std/src/sys/io/error/hermit.rs";
const HERMIT_SOCKETS: &str = "std/src/sys/net/connection/socket/hermit.rs";
const DESCRIPTORS: &str = "std/src/os/fd/owned.rs";
const HERMIT_FILES: &str = "std/src/sys/fs/hermit.rs";
const PANIC_SETTINGS: &str = "std/src/panic.rs";
const BACKTRACE: &str = "std/src/sys/backtrace.rs";

/// The patches that are not in modules of their own.
const PATCHES: [Patch; 16] = [
    // The names of threads reach the kernel, whose messages about faults show them.
    Patch {
        file: THREADS,
        old: "pub use hermit::{Thread, available_parallelism, sleep, yield_now, DEFAULT_MIN_STACK_SIZE};
        #[expect(dead_code)]
        mod unsupported;
        pub use unsupported::{current_os_id, set_name};",
        new: "pub use hermit::{Thread, available_parallelism, set_name, sleep, yield_now, DEFAULT_MIN_STACK_SIZE};
        #[expect(dead_code)]
        mod unsupported;
        pub use unsupported::current_os_id;",
    },
    Patch {
        file: HERMIT_THREADS,
        old: "use crate::num::NonZero;\n",
        new: "use crate::ffi::CStr;\nuse crate::num::NonZero;\n",
    },
    Patch {
        file: HERMIT_THREADS,
        old: "#[inline]\npub fn yield_now() {\n",
        new: "pub fn set_name(name: &CStr) {
    // SAFETY: the text ends with 0.
    unsafe {
        hermit_abi::set_thread_name(name.as_ptr());
    }
}

#[inline]
pub fn yield_now() {
",
    },
    Patch {
        file: HERMIT_SYSTEM,
        old: "operation not supported on HermitCore yet",
        new: "operation not supported on Hermit",
    },
    // Sleeping is as exact as the clock, and no duration is too long for it.
    Patch {
        file: HERMIT_THREADS,
        old: "    let micros = dur.as_micros() + if dur.subsec_nanos() % 1_000 > 0 { 1 } else { 0 };
    let micros = u64::try_from(micros).unwrap_or(u64::MAX);

    unsafe {
        hermit_abi::usleep(micros);
    }
",
        new: "    let span = hermit_abi::timespec {
        // More than this is 292 billion years, as good as for ever.
        tv_sec: i64::try_from(dur.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: dur.subsec_nanos() as i32,
    };
    // It cannot fail: the span is not negative, and the nanoseconds are less than a second.
    // SAFETY: the span is valid for reading.
    unsafe {
        hermit_abi::nanosleep(&raw const span);
    }
",
    },
    // `File::sync_all` flushes a disk's write cache.
    Patch {
        file: HERMIT_FILES,
        old: "    pub fn fsync(&self) -> io::Result<()> {
        Err(Error::from_raw_os_error(22))
    }
",
        new: "    pub fn fsync(&self) -> io::Result<()> {
        // SAFETY: any number may be passed, and this one is that of an open file.
        cvt(unsafe { hermit_abi::fsync(crate::os::fd::AsRawFd::as_raw_fd(self)) }).map(|_| ())
    }
",
    },
    // Errors are of the same kinds as on Linux.
    Patch {
        file: HERMIT_ERRORS,
        old: "        hermit_abi::errno::ETIMEDOUT => io::ErrorKind::TimedOut,
",
        new: "        hermit_abi::errno::ETIMEDOUT => io::ErrorKind::TimedOut,
        hermit_abi::errno::E2BIG => io::ErrorKind::ArgumentListTooLong,
        hermit_abi::errno::EBUSY => io::ErrorKind::ResourceBusy,
        hermit_abi::errno::EDEADLK => io::ErrorKind::Deadlock,
        hermit_abi::errno::EDQUOT => io::ErrorKind::QuotaExceeded,
        hermit_abi::errno::EFBIG => io::ErrorKind::FileTooLarge,
        hermit_abi::errno::EHOSTUNREACH => io::ErrorKind::HostUnreachable,
        hermit_abi::errno::EINPROGRESS => io::ErrorKind::InProgress,
        hermit_abi::errno::EISDIR => io::ErrorKind::IsADirectory,
        hermit_abi::errno::ELOOP => io::ErrorKind::FilesystemLoop,
        hermit_abi::errno::EMLINK => io::ErrorKind::TooManyLinks,
        hermit_abi::errno::ENAMETOOLONG => io::ErrorKind::InvalidFilename,
        hermit_abi::errno::ENETDOWN => io::ErrorKind::NetworkDown,
        hermit_abi::errno::ENETUNREACH => io::ErrorKind::NetworkUnreachable,
        hermit_abi::errno::ENOMEM => io::ErrorKind::OutOfMemory,
        hermit_abi::errno::ENOSPC => io::ErrorKind::StorageFull,
        hermit_abi::errno::ENOSYS => io::ErrorKind::Unsupported,
        hermit_abi::errno::ENOTDIR => io::ErrorKind::NotADirectory,
        hermit_abi::errno::ENOTEMPTY => io::ErrorKind::DirectoryNotEmpty,
        hermit_abi::errno::EOPNOTSUPP => io::ErrorKind::Unsupported,
        hermit_abi::errno::EROFS => io::ErrorKind::ReadOnlyFilesystem,
        hermit_abi::errno::ESPIPE => io::ErrorKind::NotSeekable,
        hermit_abi::errno::ESTALE => io::ErrorKind::StaleNetworkFileHandle,
        hermit_abi::errno::ETXTBSY => io::ErrorKind::ExecutableFileBusy,
        hermit_abi::errno::EXDEV => io::ErrorKind::CrossesDevices,
",
    },
    Patch {
        file: HERMIT_ERRORS,
        old: "    hermit_abi::error_string(errno).to_string()
",
        new: "    match hermit_abi::error_string(errno) {
        \"Unknown error\" => format!(\"Unknown error {errno}\"),
        text => text.to_string(),
    }
",
    },
    // A thread that cannot be started: the error of Linux, where std passes that of `pthread_create` on.
    Patch {
        file: HERMIT_THREADS,
        old: "            Err(io::const_error!(io::ErrorKind::Uncategorized, \"unable to create thread!\"))
",
        new: "            Err(io::Error::last_os_error())
",
    },
    // Errors of name resolution have glibc's messages.
    Patch {
        file: HERMIT_SOCKETS,
        old: "    let detail = \"\";
",
        new: "    if err == netc::EAI_SYSTEM {
        return Err(io::Error::last_os_error());
    }
    let detail = match err {
        netc::EAI_AGAIN => \"Temporary failure in name resolution\",
        netc::EAI_FAIL => \"Non-recoverable failure in name resolution\",
        netc::EAI_MEMORY => \"Memory allocation failure\",
        netc::EAI_NODATA => \"No address associated with hostname\",
        netc::EAI_NONAME => \"Name or service not known\",
        _ => \"Unknown error\",
    };
",
    },
    // Descriptors can be duplicated.
    Patch {
        file: DESCRIPTORS,
        old: "        Err(io::Error::UNSUPPORTED_PLATFORM)
    }

    /// Creates a new `OwnedFd` instance that shares the same underlying file
    /// description as the existing `BorrowedFd` instance.
    #[cfg(target_os = \"motor\")]
",
        new: "        #[cfg(target_os = \"hermit\")]
        {
            // SAFETY: any number may be passed.
            let fd = crate::sys::cvt(unsafe { hermit_abi::dup(self.as_raw_fd()) })?;
            // SAFETY: `dup` returned a new descriptor, which no other value owns.
            Ok(unsafe { OwnedFd::from_raw_fd(fd) })
        }
        #[cfg(not(target_os = \"hermit\"))]
        Err(io::Error::UNSUPPORTED_PLATFORM)
    }

    /// Creates a new `OwnedFd` instance that shares the same underlying file
    /// description as the existing `BorrowedFd` instance.
    #[cfg(target_os = \"motor\")]
",
    },
    // `alloc_zeroed` reaches the kernel, whose allocator knows which memory is zero already.
    Patch {
        file: HERMIT_HEAP,
        old: "    #[inline]\n    unsafe fn dealloc(",
        new: "    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller guarantees that the size is not 0.
        unsafe { hermit_abi::alloc_zeroed(layout.size(), layout.align()) }
    }

    #[inline]
    unsafe fn dealloc(",
    },
    // A panic prints a backtrace if the environment asks for it.
    Patch {
        file: PANIC_SETTINGS,
        old: "    if !cfg!(feature = \"backtrace\") {\n",
        new: "    if !cfg!(any(feature = \"backtrace\", target_os = \"hermit\")) {\n",
    },
    // The kernel walks the stack and has the image's symbols.
    Patch {
        file: BACKTRACE,
        old: "unsafe fn _print_fmt(fmt: &mut fmt::Formatter<'_>, print_fmt: PrintFmt) -> fmt::Result {
",
        new: "unsafe fn _print_fmt(fmt: &mut fmt::Formatter<'_>, print_fmt: PrintFmt) -> fmt::Result {
    if cfg!(target_os = \"hermit\") {
        return print_calls(fmt, print_fmt == PrintFmt::Short);
    }
",
    },
    Patch {
        file: BACKTRACE,
        old: "/// Fixed frame used to clean the backtrace with `RUST_BACKTRACE=1`. Note that
/// this is only inline(never) when backtraces in std are enabled, otherwise
/// it's fine to optimize away.
#[cfg_attr(feature = \"backtrace\", inline(never))]
pub fn __rust_begin_short_backtrace",
        new: "/// Prints the call stack of this thread. The short format has the calls between those of
/// `__rust_begin_short_backtrace` and of `__rust_end_short_backtrace`.
fn print_calls(fmt: &mut fmt::Formatter<'_>, is_short: bool) -> fmt::Result {
    fmt.write_str(\"stack backtrace:\\n\")?;
    let mut calls = [0; MAX_NB_FRAMES];
    // SAFETY: the array has this length.
    let count = unsafe { hermit_abi::backtrace(calls.as_mut_ptr(), calls.len()) };
    let mut buffer = [0; 256];
    // An image without symbols has no names by which the short format could be found.
    let has_names = is_short && name_at(calls[0], &mut buffer).is_some();
    let (mut is_printing, mut number) = (!has_names, 0);
    for &call in &calls[..count] {
        let name = name_at(call, &mut buffer);
        let is_mark = |mark| has_names && name.is_some_and(|name| name.ends_with(mark));
        if is_mark(\"__rust_end_short_backtrace\") {
            is_printing = true;
        } else if is_printing && is_mark(\"__rust_begin_short_backtrace\") {
            break;
        } else if is_printing {
            match name {
                Some(name) if is_short => writeln!(fmt, \"{number:4}: {name}\")?,
                name => writeln!(fmt, \"{number:4}: {call:#10x} - {}\", name.unwrap_or(\"<unknown>\"))?,
            }
            number += 1;
        }
    }
    if is_short {
        fmt.write_str(
            \"note: Some details are omitted, \\
             run with `RUST_BACKTRACE=full` for a verbose backtrace.\\n\",
        )?;
    }
    Ok(())
}

/// The name of the function that contains an address.
fn name_at(address: usize, buffer: &mut [u8; 256]) -> Option<&str> {
    // SAFETY: the buffer has this length.
    let length = unsafe { hermit_abi::symbol_name(address, buffer.as_mut_ptr(), buffer.len()) };
    let name = crate::str::from_utf8(&buffer[..length]).ok()?;
    (!name.is_empty()).then_some(name)
}

/// Fixed frame used to clean the backtrace with `RUST_BACKTRACE=1`. Note that
/// this is only inline(never) when backtraces in std are enabled, otherwise
/// it's fine to optimize away.
#[cfg_attr(any(feature = \"backtrace\", target_os = \"hermit\"), inline(never))]
pub fn __rust_begin_short_backtrace",
    },
    Patch {
        file: BACKTRACE,
        old: "#[cfg_attr(feature = \"backtrace\", inline(never))]
pub fn __rust_end_short_backtrace",
        new: "#[cfg_attr(any(feature = \"backtrace\", target_os = \"hermit\"), inline(never))]
pub fn __rust_end_short_backtrace",
    },
];

/// Applies patches to a fresh copy of the sources in `folder`.
///
/// # Errors
///
/// Fails, and names the file, if an original text does not occur exactly once.
pub(super) fn apply<'patch, P: IntoIterator<Item = &'patch Patch>>(patches: P, folder: &Path) -> Result<()> {
    patches.into_iter().try_for_each(|patch| patch.apply(folder))
}

/// Returns a digest of all patches, to std and to its unwinder.
pub(crate) fn digest() -> String {
    digest_of(of_library().chain(of_unwinder()))
}

/// All patches to the crate that std unwinds with.
pub(super) fn of_unwinder() -> impl Iterator<Item = &'static Patch> {
    unwinding::CRATE_PATCHES.iter()
}

/// All patches to rust's `library` folder, in the order in which they are applied.
pub(super) fn of_library() -> impl Iterator<Item = &'static Patch> {
    let files =
        [files::PATCHES, paths::PATCHES, properties::PATCHES, path_bytes::PATCHES, short_paths::PATCHES];
    let others = [
        descriptor_calls::PATCHES,
        environment::PATCHES,
        exit::PATCHES,
        mathematics::PATCHES,
        memory_functions::PATCHES,
        tests_in_machines::PATCHES,
        unwinding::PATCHES,
    ];
    PATCHES.iter().chain(files.into_iter().chain(others).flatten())
}

fn digest_of<'patch, P: IntoIterator<Item = &'patch Patch>>(patches: P) -> String {
    let mut hash = Sha256::new();
    for text in patches.into_iter().flat_map(|patch| [patch.file, patch.old, patch.new]) {
        hash.update(format!("{}\n{text}\n", text.len()));
    }
    hex(&hash.finalize())
}

impl Patch {
    fn apply(&self, folder: &Path) -> Result<()> {
        let path = folder.join(self.file);
        let text = fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}, which is to be patched", path.display()))?;
        let text = self.replace(&text).with_context(|| {
            format!("cannot patch {}: this version of Rust is not supported", path.display())
        })?;
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Returns the patched text.
    fn replace(&self, text: &str) -> Result<String> {
        match text.matches(self.old).count() {
            1 => Ok(text.replacen(self.old, self.new, 1)),
            count => bail!("it has this text {count} times instead of once:\n{}", self.old),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Patch, digest_of};
    use std::fs;

    const PATCH: Patch = Patch { file: "std/file.rs", old: "fn old() {\n}", new: "fn new() {\n    old\n}" };

    #[test]
    fn replace_changes_only_the_original_text() {
        let text = "before\nfn old() {\n}\nafter\n";
        assert_eq!(PATCH.replace(text).unwrap(), "before\nfn new() {\n    old\n}\nafter\n");
    }

    #[test]
    fn replace_fails_unless_the_text_occurs_once() {
        let message = |text: &str| PATCH.replace(text).unwrap_err().to_string();
        assert!(message("fn old() { }").contains("0 times"), "{}", message("fn old() { }"));
        let twice = PATCH.old.repeat(2);
        assert!(message(&twice).contains("2 times"), "{}", message(&twice));
        // A second application fails: the original text is gone.
        let patched = PATCH.replace(PATCH.old).unwrap();
        assert!(message(&patched).contains("0 times"), "{}", message(&patched));
    }

    #[test]
    fn apply_patches_once_and_its_errors_name_the_file() {
        let library = tempfile::tempdir().unwrap();
        let path = library.path().join(PATCH.file);
        let message = || format!("{:#}", PATCH.apply(library.path()).unwrap_err());
        assert!(message().contains("std/file.rs"), "{}", message());
        fs::create_dir(library.path().join("std")).unwrap();
        fs::write(&path, PATCH.old).unwrap();
        PATCH.apply(library.path()).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), PATCH.new);
        assert!(message().contains("std/file.rs"), "{}", message());
        assert_eq!(fs::read_to_string(&path).unwrap(), PATCH.new);
    }

    #[test]
    fn digest_depends_on_every_part_of_a_patch() {
        let changed = [
            Patch { file: "std/other.rs", ..PATCH },
            Patch { old: "other", ..PATCH },
            Patch { new: "other", ..PATCH },
            Patch { old: "", new: "", file: "" },
        ];
        for patch in changed {
            assert_ne!(digest_of(&[patch]), digest_of(&[PATCH]));
        }
        assert_ne!(digest_of(&[PATCH, PATCH]), digest_of(&[PATCH]));
    }
}
