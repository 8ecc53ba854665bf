//! Value and type of every constant, written a second time, so that no constant changes by mistake.

/// Checks at compile time the type and the value of constants.
macro_rules! constants {
    ($($type:ty: { $($name:ident = $value:expr,)* })*) => {
        $($(
            const _: $type = hermit_abi::$name;
            const _: () = assert!(hermit_abi::$name == $value, stringify!($name));
        )*)*
    };
}

constants! {
    usize: {
        NO_PRIORITIES = 31, IOV_MAX = 1024,
    }
    u32: {
        STRING_MOVES_NONE = 0, STRING_MOVES_WORDS = 1, STRING_MOVES_BYTES = 2, STRING_MOVES_VECTORS = 4,
        FUTEX_RELATIVE_TIMEOUT = 1, VMADDR_CID_ANY = u32::MAX, VMADDR_CID_HYPERVISOR = 0,
        VMADDR_CID_LOCAL = 1, VMADDR_CID_HOST = 2, S_IFIFO = 0o1_0000, S_IFCHR = 0o2_0000,
        S_IFBLK = 0o6_0000, S_IFDIR = 0o4_0000, S_IFREG = 0o10_0000, S_IFLNK = 0o12_0000,
        S_IFSOCK = 0o14_0000, S_IFMT = 0o17_0000, PROT_NONE = 0, PROT_READ = 1, PROT_WRITE = 1 << 1,
        PROT_EXEC = 1 << 2,
    }
    i32: {
        CLOCK_REALTIME = 1, CLOCK_MONOTONIC = 4, STDIN_FILENO = 0, STDOUT_FILENO = 1, STDERR_FILENO = 2,
        O_RDONLY = 0, O_WRONLY = 0o1, O_RDWR = 0o2, O_CREAT = 0o100, O_EXCL = 0o200, O_TRUNC = 0o1000,
        O_APPEND = 0o2000, O_NONBLOCK = 0o4000, O_DIRECTORY = 0o200000, F_DUPFD = 0, F_GETFD = 1,
        F_SETFD = 2, F_GETFL = 3, F_SETFL = 4, FD_CLOEXEC = 1, RAND_MAX = 2_147_483_647, AF_UNSPEC = 0,
        AF_INET = 3, AF_INET6 = 1, AF_VSOCK = 2, IPPROTO_IP = 0, IPPROTO_IPV6 = 41, IPPROTO_UDP = 17,
        IPPROTO_TCP = 6, IPV6_ADD_MEMBERSHIP = 12, IPV6_DROP_MEMBERSHIP = 13, IPV6_MULTICAST_LOOP = 19,
        IPV6_V6ONLY = 27, IP_TOS = 1, IP_TTL = 2, IP_MULTICAST_TTL = 5, IP_MULTICAST_LOOP = 7,
        IP_ADD_MEMBERSHIP = 3, IP_DROP_MEMBERSHIP = 4, SHUT_RD = 0, SHUT_WR = 1, SHUT_RDWR = 2,
        SOCK_DGRAM = 2, SOCK_STREAM = 1, SOCK_NONBLOCK = 0o4000, SOCK_CLOEXEC = 0o40000,
        SOL_SOCKET = 4095, SO_REUSEADDR = 0x04, SO_KEEPALIVE = 0x08, SO_BROADCAST = 0x20,
        SO_LINGER = 0x80, SO_SNDBUF = 0x1001, SO_RCVBUF = 0x1002, SO_SNDTIMEO = 0x1005,
        SO_RCVTIMEO = 0x1006, SO_ERROR = 0x1007, SO_TYPE = 0x1008, TCP_NODELAY = 1, TCP_KEEPIDLE = 3, TCP_KEEPINTVL = 4, TCP_KEEPCNT = 5,
        TCP_QUICKACK = 12, TCP_CONGESTION = 13, TCP_USER_TIMEOUT = 18,
        IPV6_UNICAST_HOPS = 16, IPV6_MULTICAST_HOPS = 18, MSG_PEEK = 1,
        MSG_DONTWAIT = 0x40, MSG_WAITALL = 0x100, MSG_NOSIGNAL = 0x4000,
        FIONBIO = 0x8008_667e_u32.cast_signed(),
        EAI_AGAIN = 2, EAI_BADFLAGS = 3, EAI_FAIL = 4, EAI_FAMILY = 5, EAI_MEMORY = 6, EAI_NODATA = 7,
        EAI_NONAME = 8, EAI_SERVICE = 9, EAI_SOCKTYPE = 10, EAI_SYSTEM = 11, EAI_OVERFLOW = 14,
        SEEK_SET = 0, SEEK_CUR = 1, SEEK_END = 2,
    }
    i16: {
        POLLIN = 0x1, POLLPRI = 0x2, POLLOUT = 0x4, POLLERR = 0x8, POLLHUP = 0x10, POLLNVAL = 0x20,
        POLLRDNORM = 0x040, POLLRDBAND = 0x080, POLLWRNORM = 0x0100, POLLWRBAND = 0x0200,
        POLLRDHUP = 0x2000, EFD_SEMAPHORE = 0o1, EFD_NONBLOCK = 0o4000, EFD_CLOEXEC = 0o40000,
    }
    u8: {
        DT_UNKNOWN = 0, DT_FIFO = 1, DT_CHR = 2, DT_DIR = 4, DT_BLK = 6, DT_REG = 8, DT_LNK = 10,
        DT_SOCK = 12, DT_WHT = 14,
    }
}

#[cfg(test)]
mod tests {
    use hermit_abi::{EAGAIN, EDEADLK, EDEADLOCK, EWOULDBLOCK, error_string};

    #[test]
    fn error_aliases() {
        assert_eq!((EWOULDBLOCK, EDEADLOCK), (EAGAIN, EDEADLK));
    }

    #[test]
    fn unlisted_errors_are_unknown() {
        assert_eq!(error_string(0), "Success");
        for number in [-1, 41, 58, 134, i32::MAX] {
            assert_eq!(error_string(number), "Unknown error");
        }
    }

    /// The C library of the development machine has the same numbers and words.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[test]
    fn error_descriptions_are_those_of_linux() {
        for number in (1..=133).filter(|number| ![41, 58].contains(number)) {
            let host = std::io::Error::from_raw_os_error(number).to_string();
            assert_eq!(format!("{} (os error {number})", error_string(number)), host);
        }
    }

    #[test]
    fn nothing_is_a_terminal() {
        assert!(!hermit_abi::isatty(hermit_abi::STDOUT_FILENO));
    }
}
