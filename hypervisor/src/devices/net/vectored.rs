//! One frame, many pieces of guest memory, one system call.
#![expect(
    unsafe_code,
    reason = "the host's kernel copies from and to memory that the guest may change meanwhile"
)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use libc::{c_int, iovec};
use vm_memory::VolatileSlice;

/// Most pieces of one call besides [`read`]'s and [`write`]'s `front` (`IOV_MAX` of the host).
pub(super) const MAX_PIECES: usize = 1023;

/// Fills `front`, then guest memory, by one read. Returns how many bytes there were.
///
/// # Errors
///
/// What the host says; there are too many pieces.
pub(super) fn read(
    source: BorrowedFd<'_>,
    front: &mut [u8],
    rest: &[VolatileSlice<'_>],
) -> io::Result<usize> {
    let front = iovec { iov_base: front.as_mut_ptr().cast(), iov_len: front.len() };
    let guards: Vec<_> = rest.iter().map(VolatileSlice::ptr_guard_mut).collect();
    let rest = guards.iter().map(|guard| iovec { iov_base: guard.as_ptr().cast(), iov_len: guard.len() });
    let pieces: Vec<_> = std::iter::once(front).chain(rest).collect();
    let count = c_int::try_from(pieces.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: `front` is borrowed for writing until the call returns. The guards keep guest memory mapped, and its owner, the
    // crate vm-memory, never makes a reference to it: so the kernel may write there although the guest does, too.
    let result = unsafe { libc::readv(source.as_raw_fd(), pieces.as_ptr(), count) };
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Writes `front`, then guest memory, by one write. Returns how many bytes the host has taken.
///
/// # Errors
///
/// What the host says; there are too many pieces.
pub(super) fn write(sink: BorrowedFd<'_>, front: &[u8], rest: &[VolatileSlice<'_>]) -> io::Result<usize> {
    let front = iovec { iov_base: front.as_ptr().cast_mut().cast(), iov_len: front.len() };
    let guards: Vec<_> = rest.iter().map(VolatileSlice::ptr_guard).collect();
    let rest =
        guards.iter().map(|guard| iovec { iov_base: guard.as_ptr().cast_mut().cast(), iov_len: guard.len() });
    let pieces: Vec<_> = std::iter::once(front).chain(rest).collect();
    let count = c_int::try_from(pieces.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: the kernel only reads. `front` is borrowed until the call returns, and the guards keep guest memory mapped.
    let result = unsafe { libc::writev(sink.as_raw_fd(), pieces.as_ptr(), count) };
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Copies to guest memory as many bytes as there is room for.
pub(super) fn scatter(mut bytes: &[u8], room: &[VolatileSlice<'_>]) {
    for slice in room {
        let (front, rest) = bytes.split_at(bytes.len().min(slice.len()));
        slice.copy_from(front);
        bytes = rest;
    }
}

/// Copies from guest memory to the end of a buffer.
pub(super) fn gather(pieces: &[VolatileSlice<'_>], bytes: &mut Vec<u8>) {
    for slice in pieces {
        let start = bytes.len();
        bytes.resize(start + slice.len(), 0);
        slice.copy_to(bytes.get_mut(start..).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_PIECES, gather, read, scatter, write};
    use std::io;
    use std::os::fd::AsFd;
    use vm_memory::{Bytes, GuestAddress, GuestMemory, GuestMemoryMmap, Permissions, VolatileSlice};

    /// Two regions with a hole in between.
    fn memory() -> GuestMemoryMmap {
        GuestMemoryMmap::from_ranges(&[(GuestAddress(0), 0x1000), (GuestAddress(0x2000), 0x1000)]).unwrap()
    }

    fn slices<'a>(memory: &'a GuestMemoryMmap, places: &[(u64, usize)]) -> Vec<VolatileSlice<'a>> {
        let of = |&(start, length)| memory.get_slices(GuestAddress(start), length, Permissions::ReadWrite);
        places.iter().flat_map(|place| of(place).unwrap()).map(Result::unwrap).collect()
    }

    #[test]
    fn a_frame_goes_through_a_pipe_piece_by_piece() {
        let (reader, writer) = io::pipe().unwrap();
        let memory = memory();
        memory.write_slice(b"guest", GuestAddress(0x10)).unwrap();
        memory.write_slice(b"memory", GuestAddress(0x2000)).unwrap();
        let pieces = slices(&memory, &[(0x10, 5), (0x2000, 6)]);
        assert_eq!(write(writer.as_fd(), b"from ", &pieces).unwrap(), 16);
        let mut front = [0; 4];
        let room = slices(&memory, &[(0x100, 3), (0x2100, 100)]);
        assert_eq!(read(reader.as_fd(), &mut front, &room).unwrap(), 16);
        let mut found = [vec![0; 3], vec![0; 9]];
        memory.read_slice(&mut found[0], GuestAddress(0x100)).unwrap();
        memory.read_slice(&mut found[1], GuestAddress(0x2100)).unwrap();
        assert_eq!((&front, &*found[0], &*found[1]), (b"from", &b" gu"[..], &b"estmemory"[..]));
    }

    #[test]
    fn errors_are_the_hosts() {
        let (reader, writer) = io::pipe().unwrap();
        let memory = memory();
        let many = slices(&memory, &vec![(0, 1); MAX_PIECES]);
        assert_eq!(write(writer.as_fd(), b"1", &many).unwrap(), 1 + MAX_PIECES);
        let more = slices(&memory, &vec![(0, 1); MAX_PIECES + 1]);
        assert_eq!(write(writer.as_fd(), b"1", &more).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert!(read(writer.as_fd(), &mut [], &[]).is_err());
        drop(reader);
        assert_eq!(write(writer.as_fd(), b"1", &[]).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn bytes_are_scattered_and_gathered() {
        let memory = memory();
        let pieces = slices(&memory, &[(1, 2), (0x2000, 3)]);
        scatter(b"abcdefg", &pieces);
        let mut bytes = b"-".to_vec();
        gather(&pieces, &mut bytes);
        assert_eq!(bytes, b"-abcde");
        scatter(b"x", &pieces);
        bytes.clear();
        gather(&pieces, &mut bytes);
        assert_eq!(bytes, b"xbcde");
    }
}
