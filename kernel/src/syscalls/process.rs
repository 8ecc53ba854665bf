//! The process as a whole: exit, process ID, `errno`, random bytes.

use hermit_abi::pid_t;
use hermit_hal::exit::exit;
use hermit_interface::Errno;
use hermit_interface::exit::ABORTED;

use super::export_plain;
use super::user::UserBuffer;
use crate::threads::errno;
use crate::threads::lifecycle::finish_files;
use crate::{devices, entropy, net, program, symbols};

/// Process ID of the only process.
const PROCESS_ID: pid_t = 1;

export_plain! {
    /// As on Linux, the exit status is the low eight bits.
    fn sys_exit as exit(status: i32) -> ! {
        program::finalize();
        finish_files();
        net::shut_down();
        devices::flush_consoles();
        exit(status.to_le_bytes()[0])
    }

    fn sys_abort as abort() -> ! {
        finish_files();
        devices::flush_consoles();
        exit(ABORTED)
    }

    fn sys_getpid as getpid() -> pid_t {
        PROCESS_ID
    }

    fn sys_get_errno as get_errno() -> i32 {
        errno::get()
    }

    fn sys_errno as errno() -> i32 {
        errno::get()
    }

    /// Returns -1 on failure, not `-errno`, since std compares the result with -1.
    fn sys_read_entropy as read_entropy(buf: *mut u8, len: usize, flags: u32) -> isize
    where buffer: UserBuffer::buffer(buf, len) {
        match fill_random(buffer, flags) {
            Ok(()) => isize::try_from(len).unwrap_or(isize::MAX),
            Err(error) => {
                random_failed(error);
                -1
            }
        }
    }

    /// Returns -1 on failure, as `sys_read_entropy` does, since the crate getrandom compares the result with
    /// -1.
    fn sys_secure_rand32 as secure_rand32(value: *mut u32) -> i32
    where out: UserOut::new(value) {
        status(random_bytes().and_then(|bytes| out.write(u32::from_ne_bytes(bytes))))
    }

    fn sys_secure_rand64 as secure_rand64(value: *mut u64) -> i32
    where out: UserOut::new(value) {
        status(random_bytes().and_then(|bytes| out.write(u64::from_ne_bytes(bytes))))
    }

    fn sys_symbol_name as symbol_name(address: usize, buf: *mut u8, len: usize) -> usize
    where buffer: UserBuffer::buffer(buf, len) {
        buffer.get().map_or(0, |buffer| symbols::name(address as u64, buffer))
    }
}

fn random_bytes<const SIZE: usize>() -> Result<[u8; SIZE], Errno> {
    let mut bytes = [0; SIZE];
    entropy::fill(&mut bytes)?;
    Ok(bytes)
}

/// Converts the result of a function for random numbers to 0 or -1.
fn status(result: Result<(), Errno>) -> i32 {
    result.inspect_err(|error| random_failed(*error)).map_or(-1, |()| 0)
}

/// Sets `errno`. Prints a warning if the machine has no source of entropy.
fn random_failed(error: Errno) {
    if error == Errno::ENOSYS {
        entropy::warn_of_missing_source();
    }
    errno::set(error);
}

fn fill_random(buffer: UserBuffer<'_>, flags: u32) -> Result<(), Errno> {
    if flags != 0 {
        return Err(Errno::EINVAL);
    }
    let buffer = buffer.get()?;
    let mut chunk = [0; 256];
    for part in buffer.chunks_mut(chunk.len()) {
        let chunk = &mut chunk[..part.len()];
        entropy::fill(chunk)?;
        part.write_copy_of_slice(chunk);
    }
    Ok(())
}
