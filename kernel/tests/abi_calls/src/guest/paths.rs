//! Paths, and the status flags of open files.

use std::ffi::CString;

use hermit_abi::{ENAMETOOLONG, ENOENT, EROFS, F_GETFL, O_CREAT, O_RDONLY, O_RDWR};

use super::calls;

/// `PATH_MAX` of Linux: the size of the longest path with its zero byte.
const PATH_MAX: usize = 4096;

pub(crate) fn paths() {
    // A name may have 255 bytes.
    assert_eq!(calls::open(&path(255), O_RDONLY), Err(ENOENT));
    assert_eq!(calls::open(&path(256), O_RDONLY), Err(ENAMETOOLONG));
    assert_eq!(calls::open(&CString::from(c"/dev/absent"), O_CREAT), Err(EROFS));
    for length in [PATH_MAX, PATH_MAX + 1, 100 * PATH_MAX] {
        assert_eq!(calls::open(&path(length), O_RDONLY), Err(ENAMETOOLONG), "path of {length} bytes");
        assert_eq!(calls::open(&path(length), O_CREAT), Err(ENAMETOOLONG), "path of {length} bytes");
    }
    for stream in 0..3 {
        assert_eq!(calls::fcntl(stream, F_GETFL, 0), Ok(O_RDWR), "flags of stream {stream}");
    }
}

fn path(length: usize) -> CString {
    CString::new("x".repeat(length)).expect("there is no zero byte")
}
