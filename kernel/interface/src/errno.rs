//! Error numbers.

#[cfg(any(feature = "alloc", test))]
use alloc::collections::TryReserveError;

use hermit_abi::errno as number;

/// An error number of the ABI, which is positive.
///
/// Services return it, and the system-call shims convert it to `-errno`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("error number {0}")]
pub struct Errno(i32);

macro_rules! errors {
    ($($name:ident)*) => {
        impl Errno {
            $(
                #[doc = concat!("`", stringify!($name), "` of the ABI.")]
                pub const $name: Self = Self(number::$name);
            )*
        }
    };
}

errors! {
    EBADF EAGAIN ENOMEM EFAULT ENOTDIR EINVAL EMFILE ENFILE ESPIPE ENOSYS ENOENT
    ESRCH ETIMEDOUT EOVERFLOW ENOTTY ENOTSOCK EROFS EACCES EDEADLK EIO ENOSPC EEXIST ENXIO
    EADDRINUSE EADDRNOTAVAIL EAFNOSUPPORT EALREADY ECONNABORTED ECONNREFUSED ECONNRESET EDESTADDRREQ EHOSTUNREACH
    EINPROGRESS EISCONN EMSGSIZE ENETUNREACH ENOBUFS ENODEV ENOLCK ENOPROTOOPT ENOTCONN EOPNOTSUPP EPIPE EPROTONOSUPPORT
    EPROTO ESOCKTNOSUPPORT ERANGE EDOM ENAMETOOLONG EPERM EBUSY EXDEV EISDIR EFBIG EMLINK ELOOP ENOTEMPTY
    EDQUOT
}

impl Errno {
    /// The error of a positive number; `EINVAL` for any other number.
    #[must_use]
    pub const fn from_number(number: i32) -> Self {
        if number > 0 { Self(number) } else { Self::EINVAL }
    }

    /// The error number, which is positive.
    #[must_use]
    pub const fn number(self) -> i32 {
        self.0
    }
}

#[cfg(any(feature = "alloc", test))]
impl From<TryReserveError> for Errno {
    /// Returns `ENOMEM`.
    #[inline]
    fn from(_error: TryReserveError) -> Self {
        Self::ENOMEM
    }
}

#[cfg(test)]
mod tests {
    use super::Errno;

    #[test]
    fn error_numbers_equal_linux() {
        assert_eq!(Errno::ENOSYS.number(), 38);
        assert_eq!(Errno::ETIMEDOUT.number(), 110);
    }
}
