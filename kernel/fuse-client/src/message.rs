//! Requests as bytes.

use core::fmt::Debug;

use hermit_fuse::{InHeader, MAX_HEAD, Opcode};
use zerocopy::{Immutable, IntoBytes};

/// Header, structure and names of a request.
#[derive(Debug)]
pub(crate) struct Head {
    bytes: [u8; MAX_HEAD],
    size: usize,
    opcode: Opcode,
    node: u64,
}

impl Head {
    /// Creates a request for a node, with the structure for this kind of request; `()` if the kind has no
    /// structure.
    pub(crate) fn new(opcode: Opcode, node: u64, body: &(impl IntoBytes + Immutable + Debug)) -> Self {
        let head = Self { bytes: [0; MAX_HEAD], size: size_of::<InHeader>(), opcode, node };
        head.with(body.as_bytes())
    }

    /// Appends bytes.
    ///
    /// # Panics
    ///
    /// If the bytes do not fit. This does not happen, since the virtual file system passes names of at most
    /// 255 bytes.
    pub(crate) fn with(mut self, bytes: &[u8]) -> Self {
        let end = self.size + bytes.len();
        self.bytes[self.size..end].copy_from_slice(bytes);
        self.size = end;
        self
    }

    /// Appends a name and its zero byte.
    pub(crate) fn with_name(self, name: &[u8]) -> Self {
        self.with(name).with(&[0])
    }

    /// Returns the bytes of the request. `data_size` bytes of data follow them.
    pub(crate) fn finish(&mut self, unique: u64, data_size: usize) -> &[u8] {
        let len = u32::try_from(self.size + data_size).unwrap_or(u32::MAX);
        // The kernel has one program, which is privileged.
        let header =
            InHeader { len, opcode: self.opcode.number(), unique, nodeid: self.node, ..InHeader::default() };
        let (start, _) = self.bytes.split_at_mut(size_of::<InHeader>());
        start.copy_from_slice(header.as_bytes());
        &self.bytes[..self.size]
    }
}
