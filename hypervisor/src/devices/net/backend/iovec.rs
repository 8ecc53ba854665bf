//! Scatter-gather I/O: one frame, several buffers of guest memory, one system call.
//!
//! A frame in guest memory is a list of buffers. These functions pass the list to the kernel as an array of
//! `struct iovec`, so a frame moves between guest memory and a tap or a socket without a copy in this
//! process. The guest may modify the buffers during the call. That is sound, because no Rust reference to
//! guest memory exists.
#![expect(
    unsafe_code,
    reason = "readv(2), writev(2) and recvmsg(2) on memory that the guest may modify at the same time"
)]

use std::os::fd::{AsRawFd, BorrowedFd};
use std::{io, mem, ptr};

use libc::{c_int, iovec, msghdr};
use smallvec::SmallVec;
use vm_memory::VolatileSlice;
use vm_memory::volatile_memory::PtrGuardMut;

/// Maximum number of guest buffers in one call: Linux's `UIO_MAXIOV` (1024), less one buffer for the header.
pub(in crate::devices::net) const MAX_IOVECS: usize = 1023;

/// List of the buffers of a call. A list of up to 32 buffers needs no allocation.
type List<T> = SmallVec<[T; 32]>;

/// Reads into `header`, then into guest memory, with one readv(2). Returns the number of bytes read.
///
/// # Errors
///
/// The host's error; `EINVAL` for more than [`MAX_IOVECS`] buffers.
pub(in crate::devices::net) fn read(
    source: BorrowedFd<'_>,
    header: &mut [u8],
    buffers: &[VolatileSlice<'_>],
) -> io::Result<usize> {
    let header = iovec { iov_base: header.as_mut_ptr().cast(), iov_len: header.len() };
    let guards: List<_> = buffers.iter().map(VolatileSlice::ptr_guard_mut).collect();
    let iovecs: List<_> = std::iter::once(header).chain(targets(&guards)).collect();
    let count = c_int::try_from(iovecs.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: `iovecs` has `count` elements and lives until the call returns. The kernel writes only to the
    // memory that they describe: `header` is exclusively borrowed until this function returns, and `guards`
    // keep guest memory mapped. Writes to guest memory race only with the guest and with volatile accesses:
    // vm-memory never creates a reference to it.
    let result = unsafe { libc::readv(source.as_raw_fd(), iovecs.as_ptr(), count) };
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Returns the `struct iovec` of each guest buffer that a call writes to.
fn targets(guards: &[PtrGuardMut]) -> impl Iterator<Item = iovec> {
    guards.iter().map(|guard| iovec { iov_base: guard.as_ptr().cast(), iov_len: guard.len() })
}

/// Writes `header`, then guest memory, with one writev(2). Returns the number of bytes written.
///
/// # Errors
///
/// The host's error; `EINVAL` for more than [`MAX_IOVECS`] buffers.
pub(in crate::devices::net) fn write(
    sink: BorrowedFd<'_>,
    header: &[u8],
    buffers: &[VolatileSlice<'_>],
) -> io::Result<usize> {
    let header = iovec { iov_base: header.as_ptr().cast_mut().cast(), iov_len: header.len() };
    let guards: List<_> = buffers.iter().map(VolatileSlice::ptr_guard).collect();
    let buffers =
        guards.iter().map(|guard| iovec { iov_base: guard.as_ptr().cast_mut().cast(), iov_len: guard.len() });
    let iovecs: List<_> = std::iter::once(header).chain(buffers).collect();
    let count = c_int::try_from(iovecs.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: `iovecs` has `count` elements and lives until the call returns. writev(2) only reads the memory
    // that they describe, so that the casts to `*mut` grant no write access: `header` is borrowed until this
    // function returns, and `guards` keep guest memory mapped.
    let result = unsafe { libc::writev(sink.as_raw_fd(), iovecs.as_ptr(), count) };
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Peeks with one recvmsg(2): copies received bytes of a socket to `header`, then to guest memory, and leaves
/// them in the socket. Returns the number of copied bytes.
///
/// # Errors
///
/// The host's error; `EMSGSIZE` for more than [`MAX_IOVECS`] buffers.
pub(in crate::devices::net) fn peek(
    source: BorrowedFd<'_>,
    header: &mut [u8],
    buffers: &[VolatileSlice<'_>],
) -> io::Result<usize> {
    let guards: List<_> = buffers.iter().map(VolatileSlice::ptr_guard_mut).collect();
    let header =
        (!header.is_empty()).then(|| iovec { iov_base: header.as_mut_ptr().cast(), iov_len: header.len() });
    let mut iovecs: List<_> = header.into_iter().chain(targets(&guards)).collect();
    let mut message = empty_message();
    message.msg_iov = iovecs.as_mut_ptr();
    message.msg_iovlen = to_number(iovecs.len())?;
    // SAFETY: `message` describes `iovecs`, which live until the call returns, and neither a name nor control
    // data. The kernel writes to the message itself, which is exclusively borrowed, and to the memory that
    // `iovecs` describe: the slice `header`, which is exclusively borrowed until this function returns, and
    // guest memory, which `guards` keep mapped. Those writes race only with the guest and with volatile
    // accesses: vm-memory never creates a reference to it.
    let result =
        unsafe { libc::recvmsg(source.as_raw_fd(), &raw mut message, libc::MSG_PEEK | libc::MSG_DONTWAIT) };
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Converts a number to the type of a field. That type differs between C libraries.
fn to_number<T: TryFrom<usize>>(number: usize) -> io::Result<T> {
    T::try_from(number).map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// Returns a message header without name, buffers and control data. (A struct literal cannot express it:
/// musl's structure has private padding.)
fn empty_message() -> msghdr {
    // SAFETY: the structure consists of integers and pointers, for which zero is valid.
    unsafe { mem::zeroed() }
}

/// Removes the first bytes of a TCP socket: `count`, or fewer if fewer have arrived. Returns their number.
///
/// # Errors
///
/// The host's error.
pub(in crate::devices::net) fn discard(socket: BorrowedFd<'_>, count: usize) -> io::Result<usize> {
    // SAFETY: with MSG_TRUNC, a TCP socket writes nothing to the buffer (tcp(7)). Another socket would fail
    // with EFAULT: this process maps nothing at address 0.
    let result = unsafe {
        libc::recv(socket.as_raw_fd(), ptr::null_mut(), count, libc::MSG_TRUNC | libc::MSG_DONTWAIT)
    };
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Sets the offset of the byte at which the next [`peek`] begins (`SO_PEEK_OFF`). Each [`peek`] advances it
/// past the bytes that it has copied.
///
/// # Errors
///
/// `EOPNOTSUPP` for TCP before Linux 6.9.
pub(in crate::devices::net) fn set_peek_offset(socket: BorrowedFd<'_>, offset: c_int) -> io::Result<()> {
    let size = libc::socklen_t::try_from(size_of::<c_int>()).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: the option's value is an `int`, which lives until the call returns.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEEK_OFF,
            (&raw const offset).cast(),
            size,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Copies `bytes` to guest memory, as far as the buffers' size permits.
pub(in crate::devices::net) fn scatter(mut bytes: &[u8], buffers: &[VolatileSlice<'_>]) {
    for slice in buffers {
        let (front, rest) = bytes.split_at(bytes.len().min(slice.len()));
        slice.copy_from(front);
        bytes = rest;
    }
}

/// Appends the contents of guest memory to `bytes`.
pub(in crate::devices::net) fn gather(buffers: &[VolatileSlice<'_>], bytes: &mut Vec<u8>) {
    for slice in buffers {
        let start = bytes.len();
        bytes.resize(start + slice.len(), 0);
        slice.copy_to(bytes.get_mut(start..).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_IOVECS, gather, read, scatter, write};
    use std::io;
    use std::os::fd::AsFd;
    use vm_memory::{Bytes, GuestAddress, GuestMemory, GuestMemoryMmap, Permissions, VolatileSlice};

    /// Two regions with a hole in between.
    fn memory() -> GuestMemoryMmap {
        GuestMemoryMmap::from_ranges(&[(GuestAddress(0), 0x1000), (GuestAddress(0x2000), 0x1000)]).unwrap()
    }

    fn slices<'a>(memory: &'a GuestMemoryMmap, ranges: &[(u64, usize)]) -> Vec<VolatileSlice<'a>> {
        let of = |&(start, length)| memory.get_slices(GuestAddress(start), length, Permissions::ReadWrite);
        ranges.iter().flat_map(|range| of(range).unwrap()).map(Result::unwrap).collect()
    }

    #[test]
    fn header_and_buffers_pass_a_pipe_in_order() {
        let (reader, writer) = io::pipe().unwrap();
        let memory = memory();
        memory.write_slice(b"guest", GuestAddress(0x10)).unwrap();
        memory.write_slice(b"memory", GuestAddress(0x2000)).unwrap();
        let buffers = slices(&memory, &[(0x10, 5), (0x2000, 6)]);
        assert_eq!(write(writer.as_fd(), b"from ", &buffers).unwrap(), 16);
        let mut header = [0; 4];
        let buffers = slices(&memory, &[(0x100, 3), (0x2100, 100)]);
        assert_eq!(read(reader.as_fd(), &mut header, &buffers).unwrap(), 16);
        let mut found = [vec![0; 3], vec![0; 9]];
        memory.read_slice(&mut found[0], GuestAddress(0x100)).unwrap();
        memory.read_slice(&mut found[1], GuestAddress(0x2100)).unwrap();
        assert_eq!((&header, &*found[0], &*found[1]), (b"from", &b" gu"[..], &b"estmemory"[..]));
    }

    #[test]
    fn errors_of_the_host_are_returned() {
        let (reader, writer) = io::pipe().unwrap();
        let memory = memory();
        let many = slices(&memory, &vec![(0, 1); MAX_IOVECS]);
        assert_eq!(write(writer.as_fd(), b"1", &many).unwrap(), 1 + MAX_IOVECS);
        let too_many = slices(&memory, &vec![(0, 1); MAX_IOVECS + 1]);
        assert_eq!(write(writer.as_fd(), b"1", &too_many).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert!(read(writer.as_fd(), &mut [], &[]).is_err());
        drop(reader);
        assert_eq!(write(writer.as_fd(), b"1", &[]).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn scattered_bytes_are_gathered_again() {
        let memory = memory();
        let buffers = slices(&memory, &[(1, 2), (0x2000, 3)]);
        scatter(b"abcdefg", &buffers);
        let mut bytes = b"-".to_vec();
        gather(&buffers, &mut bytes);
        assert_eq!(bytes, b"-abcde");
        scatter(b"x", &buffers);
        bytes.clear();
        gather(&buffers, &mut bytes);
        assert_eq!(bytes, b"xbcde");
    }
}
