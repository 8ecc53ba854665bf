//! Kinds of requests.

/// Kind of a request (`enum fuse_opcode`). The parentheses contain the payload of the request, an arrow, and
/// the payload of the reply. A name ends with a NUL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Opcode {
    /// Finds a name in a directory, and takes a reference to the node (name → `EntryOut`). A node of 0 in the
    /// reply means that the name does not exist. This may be cached as long as the entry is valid.
    Lookup = 1,
    /// Drops references to a node (`ForgetIn`, no reply).
    Forget = 2,
    /// Attributes (`GetattrIn` → `AttrOut`).
    Getattr = 3,
    /// Changes attributes (`SetattrIn` → `AttrOut`).
    Setattr = 4,
    /// Target of a symbolic link (→ bytes, without a NUL).
    Readlink = 5,
    /// Makes a symbolic link (name, target with a NUL → `EntryOut`).
    Symlink = 6,
    /// Makes a file or a device node.
    Mknod = 8,
    /// Makes a directory (`MkdirIn`, name → `EntryOut`).
    Mkdir = 9,
    /// Removes a name of a file (name).
    Unlink = 10,
    /// Removes an empty directory (name).
    Rmdir = 11,
    /// Renames (`RenameIn`, old name, new name).
    Rename = 12,
    /// Makes a further name (`LinkIn`, new name → `EntryOut`); the header names the new directory.
    Link = 13,
    /// Opens a file (`OpenIn` → `OpenOut`).
    Open = 14,
    /// Reads (`ReadIn` → bytes; fewer than asked for at the end of the file).
    Read = 15,
    /// Writes (`WriteIn`, bytes → `WriteOut`).
    Write = 16,
    /// Size and free space of the file system (→ `StatfsOut`).
    Statfs = 17,
    /// Ends the use of a file handle (`ReleaseIn`).
    Release = 18,
    /// Commits a file to storage (`FsyncIn`).
    Fsync = 20,
    /// Sets an extended attribute.
    Setxattr = 21,
    /// Reads an extended attribute.
    Getxattr = 22,
    /// Lists extended attributes.
    Listxattr = 23,
    /// Removes an extended attribute.
    Removexattr = 24,
    /// A descriptor of an open file is closed (`FlushIn`).
    Flush = 25,
    /// Negotiates; the first request (`InitIn` → `InitOut`).
    Init = 26,
    /// Opens a directory (`OpenIn` → `OpenOut`).
    Opendir = 27,
    /// Entries of a directory (`ReadIn` → records of [`dirent`](crate::dirent)).
    Readdir = 28,
    /// Ends the use of a directory's handle (`ReleaseIn`).
    Releasedir = 29,
    /// Commits a directory to storage (`FsyncIn`).
    Fsyncdir = 30,
    /// Tests a lock.
    Getlk = 31,
    /// Takes or drops a lock.
    Setlk = 32,
    /// Waits for a lock.
    Setlkw = 33,
    /// Checks permissions (`AccessIn`).
    Access = 34,
    /// Makes and opens a file (`CreateIn`, name → `EntryOut`, `OpenOut`).
    Create = 35,
    /// Asks to abandon a request (no reply).
    Interrupt = 36,
    /// Block of a file on its device.
    Bmap = 37,
    /// Ends the session.
    Destroy = 38,
    /// An ioctl.
    Ioctl = 39,
    /// Readiness of a file.
    Poll = 40,
    /// Reply to a notification.
    NotifyReply = 41,
    /// Drops references to many nodes (`BatchForgetIn`, `ForgetOne`s, no reply).
    BatchForget = 42,
    /// Allocates or punches space (`FallocateIn`).
    Fallocate = 43,
    /// Entries of a directory with attributes (`ReadIn` → records of [`dirent`](crate::dirent)). Each is a
    /// lookup of its node, unless the node is 0; `.` and `..` are not.
    Readdirplus = 44,
    /// Renames, with flags of renameat2(2) (`Rename2In`, old name, new name).
    Rename2 = 45,
    /// Finds data or holes (`LseekIn` → `LseekOut`).
    Lseek = 46,
    /// Copies between files.
    CopyFileRange = 47,
    /// Maps a file into the DAX window.
    Setupmapping = 48,
    /// Unmaps from the DAX window.
    Removemapping = 49,
}

impl Opcode {
    const ALL: [Self; 47] = [
        Self::Lookup,
        Self::Forget,
        Self::Getattr,
        Self::Setattr,
        Self::Readlink,
        Self::Symlink,
        Self::Mknod,
        Self::Mkdir,
        Self::Unlink,
        Self::Rmdir,
        Self::Rename,
        Self::Link,
        Self::Open,
        Self::Read,
        Self::Write,
        Self::Statfs,
        Self::Release,
        Self::Fsync,
        Self::Setxattr,
        Self::Getxattr,
        Self::Listxattr,
        Self::Removexattr,
        Self::Flush,
        Self::Init,
        Self::Opendir,
        Self::Readdir,
        Self::Releasedir,
        Self::Fsyncdir,
        Self::Getlk,
        Self::Setlk,
        Self::Setlkw,
        Self::Access,
        Self::Create,
        Self::Interrupt,
        Self::Bmap,
        Self::Destroy,
        Self::Ioctl,
        Self::Poll,
        Self::NotifyReply,
        Self::BatchForget,
        Self::Fallocate,
        Self::Readdirplus,
        Self::Rename2,
        Self::Lseek,
        Self::CopyFileRange,
        Self::Setupmapping,
        Self::Removemapping,
    ];

    /// Kind with this number; `None` for numbers that the protocol does not use or that follow 7.31.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|opcode| opcode.number() == number)
    }

    /// Number in a request.
    #[must_use]
    pub fn number(self) -> u32 {
        self as u32
    }

    /// Returns true if the server sends no reply: the device returns the buffer without writing to it.
    #[must_use]
    pub fn has_no_reply(self) -> bool {
        matches!(self, Self::Forget | Self::BatchForget | Self::Interrupt)
    }
}

#[cfg(test)]
mod tests {
    use super::Opcode;

    #[test]
    fn numbers_are_those_of_linux() {
        let known =
            [(1, Opcode::Lookup), (26, Opcode::Init), (42, Opcode::BatchForget), (45, Opcode::Rename2)];
        for (number, opcode) in known {
            assert_eq!(Opcode::from_number(number), Some(opcode));
            assert_eq!(opcode.number(), number);
        }
        for unused in [0, 7, 19, 51, 4096, u32::MAX] {
            assert_eq!(Opcode::from_number(unused), None);
        }
        let known = (0..100).filter(|&number| Opcode::from_number(number).is_some()).count();
        assert_eq!(known, Opcode::ALL.len());
    }
}
