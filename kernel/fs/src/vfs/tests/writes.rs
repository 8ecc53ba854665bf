//! Writes at the bounds of a file.

use hermit_abi::{O_APPEND, O_CREAT, O_RDWR};
use hermit_interface::Errno;

use crate::testing::{run, vfs};
use crate::vfs::{OpenedPath, Whence};

/// The largest offset.
const LAST: u64 = i64::MAX.cast_unsigned();

#[test]
fn write_that_would_end_behind_the_largest_offset_is_einval_and_writes_nothing() {
    let (_, vfs) = vfs(1 << 20);
    let open = |flags| match run(vfs.open(b"/a", O_CREAT | O_RDWR | flags, 0o666)) {
        Ok(OpenedPath::File(file)) => file,
        other => panic!("{other:?}"),
    };
    let file = open(0);
    let size = || run(file.metadata()).expect("metadata").attr.size;
    for (offset, bytes) in [(LAST - 1, &b"ab"[..]), (LAST, b"a"), (LAST + 1, b"a"), (u64::MAX, b"ab")] {
        assert_eq!(run(file.write_at(offset, bytes)), Err(Errno::EINVAL));
    }
    assert_eq!(run(file.seek(i64::MAX - 1, Whence::Start)), Ok(LAST - 1));
    assert_eq!((run(file.write(b"ab")), size()), (Err(Errno::EINVAL), 0));
    assert_eq!((run(file.write(b"a")), size()), (Ok(1), LAST));
    assert_eq!(run(open(O_APPEND).write(b"a")), Err(Errno::EFBIG));
}
