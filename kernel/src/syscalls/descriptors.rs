//! Reading, writing, and what else works on any descriptor.

use alloc::vec::Vec;
use core::ffi::c_void;

use hermit_abi::{
    F_DUPFD, F_GETFD, F_GETFL, F_SETFD, F_SETFL, FIONBIO, IOV_MAX, O_NONBLOCK, O_RDWR, iovec, stat,
};
use hermit_interface::Errno;
use hermit_io::{Object, ReadBuffer};

use super::{export, user};
use crate::descriptors;
use crate::threads::wait::block_on;

/// The number of bytes as a call returns it. No slice is longer than `isize::MAX`.
fn count(bytes: usize) -> isize {
    isize::try_from(bytes).unwrap_or(isize::MAX)
}

fn read(object: &dyn Object, buffer: &mut ReadBuffer<'_>) -> Result<(), Errno> {
    block_on(|context| object.poll_read(context, buffer))
}

fn write(object: &dyn Object, bytes: &[u8]) -> Result<usize, Errno> {
    block_on(|context| object.poll_write(context, bytes))
}

/// The program's vectors.
///
/// # Safety
///
/// As for [`user::array`].
unsafe fn vectors<'a>(vectors: *const iovec, count: usize) -> Result<&'a [iovec], Errno> {
    if count > IOV_MAX {
        return Err(Errno::EINVAL);
    }
    // SAFETY: the caller's promise.
    unsafe { user::array(vectors, count) }
}

fn count_of(bytes: Result<usize, Errno>) -> Result<isize, Errno> {
    bytes.map(count)
}

/// Bytes of vectors that go through a buffer of ours: more than a datagram has.
const VECTORS_MAX: usize = 128 << 10;

/// How many bytes of vectors are read or written at once.
fn size_of_vectors(vectors: &[iovec]) -> Result<usize, Errno> {
    let sum = vectors.iter().try_fold(0_usize, |sum, vector| sum.checked_add(vector.iov_len));
    sum.filter(|&sum| isize::try_from(sum).is_ok()).ok_or(Errno::EINVAL)
}

/// The only vector that is not empty, if there is just one, and the first one if all are.
fn only(vectors: &[iovec]) -> Option<iovec> {
    let mut filled = vectors.iter().filter(|vector| vector.iov_len > 0);
    match (filled.next(), filled.next()) {
        (Some(only), None) => Some(*only),
        (None, _) => Some(iovec { iov_base: core::ptr::null_mut(), iov_len: 0 }),
        _ => None,
    }
}

/// A buffer of ours.
fn bounce(size: usize) -> Result<Vec<u8>, Errno> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(size.min(VECTORS_MAX)).map_err(|_| Errno::ENOMEM)?;
    Ok(bytes)
}

/// Reads once, and spreads what came over the vectors: a datagram is one, however many vectors there are.
///
/// # Safety
///
/// They describe buffers that nobody else uses meanwhile.
unsafe fn read_vectors(object: &dyn Object, vectors: &[iovec]) -> Result<usize, Errno> {
    let size = size_of_vectors(vectors)?;
    if let Some(vector) = only(vectors) {
        // SAFETY: the caller's promise.
        let mut buffer = ReadBuffer::new(unsafe { user::buffer(vector.iov_base.cast(), vector.iov_len) }?);
        read(object, &mut buffer)?;
        return Ok(buffer.len());
    }
    let mut bytes = bounce(size)?;
    let room = bytes.spare_capacity_mut();
    let mut buffer = ReadBuffer::new(room.get_mut(..size.min(VECTORS_MAX)).unwrap_or_default());
    read(object, &mut buffer)?;
    let total = buffer.len();
    // SAFETY: a read buffer has only been filled as far as it says.
    unsafe { bytes.set_len(total) };
    let mut rest = bytes.as_slice();
    for vector in vectors {
        // SAFETY: the caller's promise.
        let mut part = ReadBuffer::new(unsafe { user::buffer(vector.iov_base.cast(), vector.iov_len) }?);
        let count = part.append(rest);
        rest = rest.get(count..).unwrap_or_default();
    }
    Ok(total)
}

/// Writes what the vectors have as one piece: a datagram is one, however many vectors there are.
///
/// # Safety
///
/// They describe buffers that nobody writes meanwhile.
unsafe fn write_vectors(object: &dyn Object, vectors: &[iovec]) -> Result<usize, Errno> {
    let size = size_of_vectors(vectors)?;
    if let Some(vector) = only(vectors) {
        // SAFETY: the caller's promise.
        return write(object, unsafe { user::bytes(vector.iov_base.cast_const().cast(), vector.iov_len) }?);
    }
    let mut bytes = bounce(size)?;
    for vector in vectors {
        // SAFETY: the caller's promise.
        let part = unsafe { user::bytes(vector.iov_base.cast_const().cast(), vector.iov_len) }?;
        let room = bytes.capacity() - bytes.len();
        bytes.extend_from_slice(part.get(..room.min(part.len())).unwrap_or_default());
    }
    write(object, &bytes)
}

export! {
    fn sys_read as read(fd: i32, buf: *mut u8, len: usize) -> isize {
        let object = descriptors::get(fd)?;
        // SAFETY: the program passes a buffer of this length that nobody else uses during the call.
        let mut buffer = ReadBuffer::new(unsafe { user::buffer(buf, len) }?);
        read(&*object, &mut buffer)?;
        Ok(count(buffer.len()))
    }

    fn sys_write as write(fd: i32, buf: *const u8, len: usize) -> isize {
        let object = descriptors::get(fd)?;
        // SAFETY: the program passes a buffer of this length that nobody writes during the call.
        let bytes = unsafe { user::bytes(buf, len) }?;
        write(&*object, bytes).map(count)
    }

    fn sys_readv as readv(fd: i32, iov: *const iovec, iovcnt: usize) -> isize {
        let object = descriptors::get(fd)?;
        // SAFETY: the program passes as many vectors.
        let vectors = unsafe { vectors(iov, iovcnt) }?;
        // SAFETY: they describe buffers that nobody else uses during the call.
        count_of(unsafe { read_vectors(&*object, vectors) })
    }

    fn sys_writev as writev(fd: i32, iov: *const iovec, iovcnt: usize) -> isize {
        let object = descriptors::get(fd)?;
        // SAFETY: the program passes as many vectors.
        let vectors = unsafe { vectors(iov, iovcnt) }?;
        // SAFETY: they describe buffers that nobody writes during the call.
        count_of(unsafe { write_vectors(&*object, vectors) })
    }

    fn sys_close as close(fd: i32) -> i32 {
        descriptors::close(fd).map(|()| 0)
    }

    fn sys_dup as dup(fd: i32) -> i32 {
        descriptors::duplicate(fd, 0)
    }

    fn sys_lseek as lseek(fd: i32, offset: isize, whence: i32) -> isize {
        let offset = i64::try_from(offset).map_err(|_| Errno::EINVAL)?;
        let position = descriptors::get(fd)?.seek(offset, whence)?;
        isize::try_from(position).map_err(|_| Errno::EOVERFLOW)
    }

    fn sys_fstat as fstat(fd: i32, stat: *mut stat) -> i32 {
        let found = descriptors::get(fd)?.stat()?;
        let value = stat {
            st_mode: found.mode,
            st_nlink: 1,
            st_size: i64::try_from(found.size).map_err(|_| Errno::EOVERFLOW)?,
            st_blksize: found.block_size.into(),
            ..stat::default()
        };
        // SAFETY: the program passes a place for the result.
        unsafe { user::write(stat, value) }.map(|()| 0)
    }

    fn sys_fsync as fsync(fd: i32) -> i32 {
        descriptors::get(fd)?.sync().map(|()| 0)
    }

    fn sys_ioctl as ioctl(fd: i32, cmd: i32, argp: *mut c_void) -> i32 {
        let object = descriptors::get(fd)?;
        if cmd != FIONBIO {
            return Err(Errno::ENOTTY);
        }
        // SAFETY: the program passes a number with this command.
        let nonblocking = unsafe { user::read(argp.cast_const().cast::<i32>()) }? != 0;
        object.set_nonblocking(nonblocking).map(|()| 0)
    }

    fn sys_fcntl as fcntl(fd: i32, cmd: i32, arg: i32) -> i32 {
        match cmd {
            F_DUPFD => descriptors::duplicate(fd, arg),
            F_GETFL => {
                let nonblocking = descriptors::get(fd)?.is_nonblocking();
                Ok(if nonblocking { O_RDWR | O_NONBLOCK } else { O_RDWR })
            }
            // There is no other program that could inherit a descriptor.
            F_GETFD | F_SETFD => descriptors::get(fd).map(|_| 0),
            F_SETFL => descriptors::get(fd)?.set_nonblocking(arg & O_NONBLOCK != 0).map(|()| 0),
            _ => Err(Errno::EINVAL),
        }
    }
}
