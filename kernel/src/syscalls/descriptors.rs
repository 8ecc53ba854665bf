//! Reading, writing, and what else works on any descriptor.

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

    /// Fills the first vector that is not empty: what comes later may have to be waited for, and there is something to
    /// return already.
    fn sys_readv as readv(fd: i32, iov: *const iovec, iovcnt: usize) -> isize {
        let object = descriptors::get(fd)?;
        // SAFETY: the program passes as many vectors.
        let Some(vector) = unsafe { vectors(iov, iovcnt) }?.iter().find(|vector| vector.iov_len > 0) else {
            return Ok(0);
        };
        // SAFETY: it describes a buffer that nobody else uses during the call.
        let mut buffer = ReadBuffer::new(unsafe { user::buffer(vector.iov_base.cast(), vector.iov_len) }?);
        read(&*object, &mut buffer)?;
        Ok(count(buffer.len()))
    }

    fn sys_writev as writev(fd: i32, iov: *const iovec, iovcnt: usize) -> isize {
        let object = descriptors::get(fd)?;
        let mut total = 0;
        // SAFETY: the program passes as many vectors.
        for vector in unsafe { vectors(iov, iovcnt) }? {
            // SAFETY: each describes a buffer that nobody writes during the call.
            let bytes = unsafe { user::bytes(vector.iov_base.cast_const().cast(), vector.iov_len) }?;
            let written = write(&*object, bytes)?;
            total += written;
            if written < bytes.len() {
                break;
            }
        }
        Ok(count(total))
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
