//! The host's C and C++ compilers, and the flags with which they compile for the target.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result, bail};

use crate::process;
use crate::quote::shell_word;

/// Flags of all code for the target: position-independent, with thread-local variables at fixed offsets, and
/// without features that need support from Linux's C libraries. The macros that identify Linux are undefined.
const TARGET_FLAGS: &str = "-nostdinc -fPIE -ftls-model=initial-exec -fno-stack-protector -fcf-protection=none -U_FORTIFY_SOURCE \
                            -U__linux__ -U__linux -Ulinux -U__gnu_linux__ -D__hermit__=1";

/// Flags of C++. The target has neither a standard library of C++ nor an unwinder for it.
const CXX_FLAGS: &str = "-nostdinc++ -fno-exceptions -fno-rtti";

/// Flags of the library itself.
const LIBRARY_FLAGS: &str = "-std=c99 -nostdinc -ffreestanding -fexcess-precision=standard -frounding-math -fno-strict-aliasing \
    -Wa,--noexecstack -D_XOPEN_SOURCE=700 -O2 -pipe -fomit-frame-pointer -fno-unwind-tables -fno-asynchronous-unwind-tables \
    -ffunction-sections -fdata-sections -fPIE -fno-stack-protector -fcf-protection=none -U_FORTIFY_SOURCE -w";

/// Returns a text that changes with the flags, for digests.
pub(super) fn flags() -> String {
    [TARGET_FLAGS, CXX_FLAGS, LIBRARY_FLAGS].join("\n")
}

/// Names of the programs in the toolchain that compile for the target.
pub(super) const CC: &str = "x86_64-hermit-gcc";
pub(super) const CXX: &str = "x86_64-hermit-g++";
pub(super) const FORTRAN: &str = "x86_64-hermit-gfortran";

/// The compilers of a host.
#[derive(Debug)]
pub(super) struct Compilers {
    c: PathBuf,
    cxx: Option<PathBuf>,
    fortran: Option<PathBuf>,
    /// Identifies the C compiler, and says which other compilers there are.
    pub(super) identity: String,
    /// Folder of the C compiler's own headers.
    headers: PathBuf,
}

impl Compilers {
    /// Finds the compilers in `PATH`.
    pub(super) fn find() -> Result<Self> {
        let first = |names: &[&str]| names.iter().find_map(|name| process::find(name));
        let c = first(&["gcc", "clang", "cc"]).context(
            "there is no C compiler: install GCC or Clang (on Debian and Ubuntu, `apt-get install gcc`)",
        )?;
        let (cxx, fortran) = (first(&["g++", "clang++", "c++"]), first(&["gfortran"]));
        let ask = |argument: &str| process::output(Command::new(&c).arg(argument));
        let version = ask("--version")?;
        let headers = PathBuf::from(ask("-print-file-name=include")?.trim_end());
        let identity = format!("{} {cxx:?} {fortran:?}", version.lines().next().unwrap_or_default());
        Ok(Self { c, cxx, fortran, identity, headers })
    }

    /// Installs programs into `folder`, which compile for the target with the headers of the C library.
    pub(super) fn install(&self, folder: &Path, library: &Path) -> Result<()> {
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let headers = format!("-isystem {} -isystem {}", shell_word(library), shell_word(&self.headers));
        write_program(&folder.join(CC), &self.c, &format!("{TARGET_FLAGS} {headers}"))?;
        if let Some(cxx) = &self.cxx {
            write_program(&folder.join(CXX), cxx, &format!("{TARGET_FLAGS} {headers} {CXX_FLAGS}"))?;
        }
        if let Some(fortran) = &self.fortran {
            let flags = "-fPIE -ftls-model=initial-exec -fno-stack-protector -fcf-protection=none";
            write_program(&folder.join(FORTRAN), fortran, flags)?;
        }
        Ok(())
    }

    /// Compiles sources of the library into `folder`, and returns the objects in the order of the sources.
    /// Calls `note` with the number of sources compiled so far.
    pub(super) fn compile(
        &self,
        sources: &[PathBuf],
        includes: &[PathBuf],
        folder: &Path,
        note: impl Fn(usize) + Sync,
    ) -> Result<Vec<PathBuf>> {
        let objects: Vec<_> = (0..sources.len()).map(|index| folder.join(format!("{index}.o"))).collect();
        let (next, done, failure) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(None));
        let fail = |error| {
            next.store(sources.len(), Relaxed);
            *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        };
        let take = || {
            let index = next.fetch_add(1, Relaxed);
            sources.get(index).zip(objects.get(index))
        };
        let work = || {
            while let Some((source, object)) = take() {
                self.compile_one(source, includes, object).unwrap_or_else(fail);
                note(done.fetch_add(1, Relaxed) + 1);
            }
        };
        thread::scope(|scope| {
            for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
                scope.spawn(work);
            }
        });
        let failure = failure.into_inner().unwrap_or_else(PoisonError::into_inner);
        failure.map_or(Ok(objects), Err)
    }

    fn compile_one(&self, source: &Path, includes: &[PathBuf], object: &Path) -> Result<()> {
        let is_cxx = source.extension().is_some_and(|extension| extension == "cpp");
        let mut command = match (&self.cxx, is_cxx) {
            (Some(cxx), true) => Command::new(cxx),
            _ => Command::new(&self.c),
        };
        if is_cxx {
            command.args(TARGET_FLAGS.split_whitespace()).args(CXX_FLAGS.split_whitespace());
            command.args(["-O2", "-ffunction-sections", "-fno-asynchronous-unwind-tables"]);
        } else {
            command.args(LIBRARY_FLAGS.split_whitespace());
        }
        command.args(includes.iter().flat_map(|folder| ["-I".as_ref(), folder.as_os_str()]));
        command.arg("-c").arg(source).arg("-o").arg(object);
        let output = command.output().context("cannot start the C compiler")?;
        if !output.status.success() {
            bail!("cannot compile {}:\n{}", source.display(), String::from_utf8_lossy(&output.stderr));
        }
        Ok(())
    }

    /// Returns true if C++ can be compiled.
    pub(super) fn has_cxx(&self) -> bool {
        self.cxx.is_some()
    }
}

/// Writes a shell script that runs a compiler with flags before its arguments.
fn write_program(path: &Path, compiler: &Path, flags: &str) -> Result<()> {
    let compiler = shell_word(compiler);
    let text = format!(
        "#!/bin/sh\n# The host's compiler for x86_64-unknown-hermit, written by `cargo xtask setup`.\nexec {compiler} {flags} \"$@\"\n"
    );
    fs::write(path, text)
        .and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(0o755)))
        .with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::write_program;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::process::Command;

    #[test]
    fn program_in_a_folder_with_any_name_is_started() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("$HOME `id` e\u{301}");
        fs::create_dir(&folder).unwrap();
        let compiler = folder.join("echo");
        symlink("/bin/echo", &compiler).unwrap();
        write_program(&folder.join("cc"), &compiler, "-flag").unwrap();
        let output = Command::new(folder.join("cc")).arg("a b").output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "-flag a b\n");
    }
}
