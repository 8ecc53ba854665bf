//! memmap2: it compiles for the target and fails there.

use std::fs::File;
use std::io;

use memmap2::Mmap;

use crate::ensure;

/// The kind of an error.
fn kind<T>(result: io::Result<T>) -> Result<io::ErrorKind, String> {
    result.err().map(|error| error.kind()).ok_or_else(|| "it is supported".to_owned())
}

fn map(file: &File) -> io::Result<Mmap> {
    // SAFETY: the file must not change while it is mapped; only this function's caller has it, and does not write to it.
    #[expect(unsafe_code, reason = "memmap2 has no safe function for files")]
    unsafe {
        Mmap::map(file)
    }
}

/// Checks the error of each operation.
pub(crate) fn check() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("file");
    std::fs::write(&path, "contents")?;
    let found = kind(map(&File::open(path)?))?;
    ensure(found == io::ErrorKind::Unsupported, || format!("memmap2: {found:?}"))?;
    Ok(())
}
