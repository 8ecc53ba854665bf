//! Requests and replies in descriptor chains (virtio 1.2 §5.11.6.1).

use hermit_fuse::{InHeader, MAX_NAME, OutHeader};
use rustix::io::Errno;
use vm_memory::GuestMemoryMmap;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::config::MAX_REQUEST;
use crate::devices::virtio::DeviceError;
use crate::devices::virtio::chain::{Buffers, Chain};

/// Reason why a request fails.
#[derive(Debug, thiserror::Error)]
pub(super) enum RequestError {
    /// The guest gets an error.
    #[error(transparent)]
    Errno(#[from] Errno),
    /// The device needs a reset.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// Result of a request.
pub(super) type RequestResult<T> = Result<T, RequestError>;

/// Maximum size in bytes of the target of a symbolic link (`PATH_MAX`, with its NUL).
const MAX_TARGET: usize = 4096;

/// Request whose header has been read.
#[derive(Debug)]
pub(super) struct Request<'memory> {
    /// The header.
    pub(super) header: InHeader,
    /// Data after the header that has not been read yet.
    pub(super) data: Buffers,
    /// Guest memory.
    pub(super) memory: &'memory GuestMemoryMmap,
}

/// A reply that is being written.
#[derive(Debug)]
pub(super) struct Reply<'memory> {
    header: Buffers,
    body: Buffers,
    memory: &'memory GuestMemoryMmap,
    /// Number of bytes that were written after the header.
    length: usize,
}

/// Splits a chain into request and reply. Returns `None` if the chain is too short for the request's header.
pub(super) fn parse<'memory>(
    mut chain: Chain,
    memory: &'memory GuestMemoryMmap,
) -> Result<Option<(Request<'memory>, Reply<'memory>)>, DeviceError> {
    let mut header = InHeader::default();
    let size = chain.readable.read(memory, header.as_mut_bytes())?;
    if size < size_of::<InHeader>() {
        return Ok(None);
    }
    let reply_header = chain.writable.take(size_of::<OutHeader>());
    let reply = Reply { header: reply_header, body: chain.writable, memory, length: 0 };
    Ok(Some((Request { header, data: chain.readable, memory }, reply)))
}

impl Request<'_> {
    /// Limits the request to the length in its header.
    ///
    /// # Errors
    ///
    /// The length is invalid, or exceeds [`MAX_REQUEST`].
    pub(super) fn limit(&mut self) -> Result<(), Errno> {
        let length = usize::try_from(self.header.len).unwrap_or(usize::MAX);
        let rest = length.checked_sub(size_of::<InHeader>()).ok_or(Errno::INVAL)?;
        if rest > self.data.length() {
            return Err(Errno::INVAL);
        }
        if rest > MAX_REQUEST {
            return Err(Errno::TOOBIG);
        }
        self.data = self.data.take(rest);
        Ok(())
    }

    /// Reads the next structure of the request.
    pub(super) fn read<T: FromBytes + IntoBytes + Immutable>(&mut self) -> RequestResult<T> {
        let mut value = T::new_zeroed();
        let size = self.data.read(self.memory, value.as_mut_bytes())?;
        if size < size_of::<T>() { Err(Errno::INVAL.into()) } else { Ok(value) }
    }

    /// Reads the rest of the request, which is a name.
    pub(super) fn name(&mut self) -> RequestResult<Name> {
        let [name] = self.strings()?;
        Ok(Name::new(name)?)
    }

    /// Reads the rest of the request, which is two names.
    pub(super) fn two_names(&mut self) -> RequestResult<[Name; 2]> {
        let [first, second] = self.strings()?;
        Ok([Name::new(first)?, Name::new(second)?])
    }

    /// Reads the rest of the request, which is the name and the target of a symbolic link.
    pub(super) fn name_and_target(&mut self) -> RequestResult<(Name, Vec<u8>)> {
        let [name, target] = self.strings()?;
        match target.len() {
            0 => Err(Errno::NOENT.into()),
            MAX_TARGET.. => Err(Errno::NAMETOOLONG.into()),
            _ => Ok((Name::new(name)?, target)),
        }
    }

    /// Reads the rest of the request, which is `N` strings, each with a NUL at its end.
    fn strings<const N: usize>(&mut self) -> RequestResult<[Vec<u8>; N]> {
        let length = self.data.length();
        if length > N * (MAX_TARGET + 1) {
            return Err(Errno::NAMETOOLONG.into());
        }
        let mut bytes = vec![0; length];
        self.data.read(self.memory, &mut bytes)?;
        let strings = bytes.strip_suffix(&[0]).ok_or(Errno::INVAL)?;
        let strings: Vec<Vec<u8>> = strings.split(|&byte| byte == 0).map(<[u8]>::to_vec).collect();
        Ok(strings.try_into().map_err(|_| Errno::INVAL)?)
    }
}

/// A name in a directory: not empty, neither `.` nor `..`, without slash and NUL.
#[derive(Debug)]
pub(super) struct Name(Vec<u8>);

impl Name {
    fn new(name: Vec<u8>) -> Result<Self, Errno> {
        let is_path = name.iter().any(|&byte| matches!(byte, 0 | b'/'));
        match name.as_slice() {
            _ if name.len() > MAX_NAME => Err(Errno::NAMETOOLONG),
            b"" | b"." | b".." => Err(Errno::INVAL),
            _ if is_path => Err(Errno::INVAL),
            _ => Ok(Self(name)),
        }
    }

    /// Returns the name.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Reply<'_> {
    /// Returns true if the chain has room for the header.
    pub(super) fn has_header(&self) -> bool {
        self.header.length() == size_of::<OutHeader>()
    }

    /// Returns the number of bytes for which the reply still has room.
    pub(super) fn room(&self) -> usize {
        self.body.length()
    }

    /// Appends a structure or bytes.
    ///
    /// # Errors
    ///
    /// `EINVAL`: there is no room for all of them.
    pub(super) fn write<T: IntoBytes + Immutable + ?Sized>(&mut self, value: &T) -> RequestResult<()> {
        let bytes = value.as_bytes();
        if bytes.len() > self.body.length() {
            return Err(Errno::INVAL.into());
        }
        self.length += self.body.write(self.memory, bytes)?;
        Ok(())
    }

    /// Splits off room for at most `count` bytes. The caller fills it, and then reports the number of bytes
    /// with [`Self::advance`].
    pub(super) fn take(&mut self, count: usize) -> Buffers {
        self.body.take(count)
    }

    /// Counts bytes that the caller has written to the buffers from [`Self::take`].
    pub(super) fn advance(&mut self, count: usize) {
        self.length += count;
    }

    /// Writes the header. Returns the number of bytes of the whole reply.
    pub(super) fn finish(mut self, unique: u64, error: Option<Errno>) -> Result<u32, DeviceError> {
        let length = if error.is_some() { 0 } else { self.length };
        let len = u32::try_from(size_of::<OutHeader>() + length).unwrap_or(u32::MAX);
        let header = OutHeader { len, error: error.map_or(0, |error| -error.raw_os_error()), unique };
        self.header.write(self.memory, header.as_bytes())?;
        Ok(len)
    }
}
