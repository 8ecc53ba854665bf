//! musl's sources: the files that are compiled, the patches, and the headers that its makefile
//! would generate.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::patches::MUSL;

/// Version of musl. Debian's stable suite has its original sources.
pub(super) const VERSION: &str = "1.2.5";

/// SHA-256 of the archive of the sources.
pub(super) const DIGEST: &str = "a9a118bbe84d8764da0ea0d28b3ab3fae8477fc7e4085d90102b8596fc7c75e4";

/// Folders below `src` whose sources are compiled, except those in [`LEFT_OUT`].
const FOLDERS: [&str; 20] = [
    "complex",
    "conf",
    "ctype",
    "dirent",
    "errno",
    "fcntl",
    "fenv",
    "locale",
    "math",
    "multibyte",
    "prng",
    "regex",
    "search",
    "setjmp",
    "stat",
    "stdio",
    "stdlib",
    "string",
    "temp",
    "thread",
];

/// Sources of [`FOLDERS`] that are not compiled: our own code replaces them, they need signals or other
/// processes, or they belong to musl's start of a program.
const LEFT_OUT: [&str; 42] = [
    // The published version has a defect that Debian's patches mend (CVE-2025-26519).
    "locale/iconv",
    "locale/iconv_close",
    // They need functions of libgcc.
    "complex/cpow",
    "complex/cpowf",
    "complex/cpowl",
    // `glob` needs a database of users.
    "regex/glob",
    "stdio/pclose",
    "stdio/popen",
    "thread/__set_thread_area",
    "thread/__syscall_cp",
    "thread/__tls_get_addr",
    "thread/__unmapself",
    "thread/clone",
    "thread/pthread_atfork",
    "thread/pthread_cancel",
    "thread/pthread_create",
    "thread/pthread_detach",
    "thread/pthread_getattr_np",
    "thread/pthread_getcpuclockid",
    "thread/pthread_getname_np",
    "thread/pthread_getschedparam",
    "thread/pthread_getspecific",
    "thread/pthread_join",
    "thread/pthread_key_create",
    "thread/pthread_kill",
    "thread/pthread_setattr_default_np",
    "thread/pthread_setname_np",
    "thread/pthread_setschedparam",
    "thread/pthread_setschedprio",
    "thread/pthread_setspecific",
    "thread/sem_open",
    "thread/sem_unlink",
    "thread/synccall",
    "thread/syscall_cp",
    "thread/thrd_create",
    "thread/thrd_exit",
    "thread/thrd_join",
    "thread/tls",
    "thread/tss_create",
    "thread/tss_delete",
    "thread/tss_set",
    "stat/statvfs",
];

/// Sources of other folders.
const OTHERS: [(&str, &[&str]); 14] = [
    ("env", &["__environ", "clearenv", "getenv", "putenv", "secure_getenv", "setenv", "unsetenv"]),
    ("exit", &["abort_lock", "assert", "at_quick_exit", "atexit", "quick_exit"]),
    ("internal", &["floatscan", "intscan", "libc", "procfdname", "shgetc", "syscall_ret"]),
    // These functions only report that no library can be loaded.
    ("ldso", &["__dlsym", "dlclose", "dlerror", "dlopen", "dlsym"]),
    ("linux", &["eventfd", "flock", "getrandom", "gettid", "utimes"]),
    ("malloc", &["posix_memalign", "reallocarray"]),
    (
        "misc",
        &[
            "a64l",
            "basename",
            "dirname",
            "ffs",
            "ffsl",
            "ffsll",
            "get_current_dir_name",
            "getentropy",
            "getopt",
            "getopt_long",
            "getsubopt",
            "ioctl",
            "issetugid",
            "lockf",
            "nftw",
            "realpath",
        ],
    ),
    ("mman", &["madvise", "mmap", "mprotect", "mremap", "msync", "munmap", "posix_madvise"]),
    (
        "network",
        &[
            "htonl",
            "htons",
            "in6addr_any",
            "in6addr_loopback",
            "inet_addr",
            "inet_aton",
            "inet_ntoa",
            "inet_ntop",
            "inet_pton",
            "ntohl",
            "ntohs",
        ],
    ),
    ("sched", &["affinity", "sched_cpucount", "sched_yield"]),
    ("select", &["poll"]),
    (
        "signal",
        &[
            "block",
            "sigaddset",
            "sigandset",
            "sigdelset",
            "sigemptyset",
            "sigfillset",
            "sigisemptyset",
            "sigismember",
            "siglongjmp",
            "sigorset",
            "sigprocmask",
            "sigsetjmp",
            "sigsetjmp_tail",
        ],
    ),
    (
        "time",
        &[
            "__map_file",
            "__month_to_secs",
            "__secs_to_tm",
            "__tm_to_secs",
            "__tz",
            "__year_to_secs",
            "asctime",
            "asctime_r",
            "clock",
            "clock_getres",
            "clock_gettime",
            "clock_nanosleep",
            "ctime",
            "ctime_r",
            "difftime",
            "gettimeofday",
            "gmtime",
            "gmtime_r",
            "localtime",
            "localtime_r",
            "mktime",
            "nanosleep",
            "strftime",
            "strptime",
            "time",
            "timegm",
            "timespec_get",
            "utime",
            "wcsftime",
        ],
    ),
    (
        "unistd",
        &[
            "_exit",
            "access",
            "chdir",
            "chown",
            "close",
            "dup",
            "dup2",
            "dup3",
            "fchown",
            "fdatasync",
            "fsync",
            "ftruncate",
            "getcwd",
            "getegid",
            "geteuid",
            "getgid",
            "getpid",
            "getuid",
            "isatty",
            "link",
            "lseek",
            "pipe",
            "pipe2",
            "posix_close",
            "pread",
            "pwrite",
            "read",
            "readlink",
            "readv",
            "rmdir",
            "sleep",
            "symlink",
            "truncate",
            "unlink",
            "usleep",
            "write",
            "writev",
        ],
    ),
];

/// Folders with public headers. A file in an earlier folder precedes a file of the same name in a later
/// folder.
const HEADERS: [&str; 4] = ["obj/include", "arch/x86_64", "arch/generic", "include"];

/// Applies the patches to the sources in `folder`, and generates the headers.
pub(super) fn prepare(folder: &Path) -> Result<()> {
    MUSL.apply(folder)?;
    let bits = folder.join("obj/include/bits");
    fs::create_dir_all(&bits).with_context(|| format!("cannot create {}", bits.display()))?;
    let types =
        read(&folder.join("arch/x86_64/bits/alltypes.h.in"))? + &read(&folder.join("include/alltypes.h.in"))?;
    write(&bits.join("alltypes.h"), &types.lines().map(type_definition).collect::<String>())?;
    write(&bits.join("syscall.h"), &call_numbers(&read(&folder.join("arch/x86_64/bits/syscall.h.in"))?))
}

/// Translates a line of `alltypes.h.in` into a definition with preprocessor guards. The type is defined only
/// if a header needs it, and only once.
fn type_definition(line: &str) -> String {
    let Some(definition) = line.strip_suffix(';') else { return format!("{line}\n") };
    let parts = match definition.split_once(' ') {
        Some(("TYPEDEF", rest)) => {
            rest.rsplit_once(' ').map(|(_, name)| (name.to_owned(), format!("typedef {rest}")))
        }
        Some((kind @ ("STRUCT" | "UNION"), rest)) => rest.trim_start().split_once(' ').map(|(name, _)| {
            let kind = kind.to_lowercase();
            (format!("{kind}_{name}"), format!("{kind} {}", rest.trim_start()))
        }),
        _ => None,
    };
    parts.map_or_else(
        || format!("{line}\n"),
        |(name, text)| {
            format!("#if defined(__NEED_{name}) && !defined(__DEFINED_{name})\n{text};\n#define __DEFINED_{name}\n#endif\n")
        },
    )
}

/// Returns the numbers of system calls, each under both of its names (`__NR_…` and `SYS_…`).
fn call_numbers(text: &str) -> String {
    let numbers = text.lines().filter(|line| line.contains("__NR_"));
    let numbers = numbers.map(|line| line.replace("__NR_", "SYS_") + "\n").collect::<String>();
    format!("{text}{numbers}")
}

/// Returns the sources to compile in `folder`, sorted. If a function has a version for the processor, that
/// version replaces the general one.
pub(super) fn sources(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut sources = Vec::new();
    for name in FOLDERS {
        let folder = folder.join("src").join(name);
        for stem in stems(&folder)? {
            if !LEFT_OUT.contains(&&*format!("{name}/{stem}")) {
                sources.push(source(&folder, &stem)?);
            }
        }
    }
    for (name, stems) in OTHERS {
        for stem in stems {
            sources.push(source(&folder.join("src").join(name), stem)?);
        }
    }
    sources.sort();
    Ok(sources)
}

/// Returns the names, without extensions, of the sources in a folder and in its subfolder for the processor.
fn stems(folder: &Path) -> Result<std::collections::BTreeSet<String>> {
    let list = |folder: &Path| -> Result<Vec<String>> {
        let entries = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
        let paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
        let is_source =
            |path: &&PathBuf| path.extension().is_some_and(|extension| extension == "c" || extension == "s");
        let stems = paths.iter().filter(is_source).filter_map(|path| path.file_stem()?.to_str());
        Ok(stems.map(str::to_owned).collect())
    };
    let mut stems = list(folder)?;
    let own = folder.join("x86_64");
    if own.is_dir() {
        stems.extend(list(&own)?);
    }
    Ok(stems.into_iter().collect())
}

fn source(folder: &Path, stem: &str) -> Result<PathBuf> {
    let places = [format!("x86_64/{stem}.s"), format!("x86_64/{stem}.c"), format!("{stem}.c")];
    let found = places.iter().map(|place| folder.join(place)).find(|path| path.is_file());
    found.with_context(|| format!("musl has no source {stem} in {}", folder.display()))
}

/// Installs the public headers of the prepared sources in `folder` into `place`.
pub(super) fn install_headers(folder: &Path, place: &Path) -> Result<()> {
    for headers in HEADERS.iter().rev() {
        // The folders of the processor have public headers only in `bits`; their other headers are for musl
        // itself.
        let (from, to) = match headers.strip_prefix("arch/") {
            Some(_) => (folder.join(headers).join("bits"), place.join("bits")),
            None => (folder.join(headers), place.to_owned()),
        };
        super::super::files::copy_dir(&from, &to)?;
    }
    Ok(())
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Returns a text that changes with the selection of sources and with the patches, for digests.
pub(super) fn selection() -> Result<String> {
    Ok(format!("{DIGEST} {FOLDERS:?} {LEFT_OUT:?} {OTHERS:?} {}", MUSL.digest()?))
}

#[cfg(test)]
mod tests {
    use super::{call_numbers, type_definition};

    #[test]
    fn types_are_defined_where_they_are_needed() {
        let guarded = |name: &str, text: &str| {
            format!(
                "#if defined(__NEED_{name}) && !defined(__DEFINED_{name})\n{text};\n#define __DEFINED_{name}\n#endif\n"
            )
        };
        assert_eq!(
            type_definition("TYPEDEF unsigned _Addr size_t;"),
            guarded("size_t", "typedef unsigned _Addr size_t")
        );
        let timeval = "timeval { time_t tv_sec; suseconds_t tv_usec; }";
        assert_eq!(
            type_definition(&format!("STRUCT {timeval};")),
            guarded("struct_timeval", &format!("struct {timeval}"))
        );
        assert_eq!(type_definition("#define _Addr long"), "#define _Addr long\n");
    }

    #[test]
    fn calls_have_both_names() {
        assert_eq!(call_numbers("#define __NR_read\t0\n"), "#define __NR_read\t0\n#define SYS_read\t0\n");
    }
}
