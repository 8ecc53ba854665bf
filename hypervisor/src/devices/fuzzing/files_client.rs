//! A client of FUSE that drives a file-system device through a queue.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use hermit_fuse::flags::InitFlags;
use hermit_fuse::request::InitIn;
use hermit_fuse::{InHeader, MAJOR_VERSION, MINOR_VERSION, Opcode, OutHeader};
use hermit_options::mount::{CachePolicy, MountConfig, MountError};
use hermit_options::open::Opener;
use hermit_options::rate::RateLimits;
use virtio_queue::desc::split::Descriptor;
use virtio_queue::{Queue, QueueT};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};
use zerocopy::{FromBytes, IntoBytes};

use crate::devices::fs::FileSystem;
use crate::devices::virtio::VirtioDevice;

/// Addresses of the parts of the queue, of a request and of a reply.
const DESCRIPTORS: u32 = 0;
const AVAILABLE: u32 = 0x1000;
const USED: u32 = 0x2000;
const REQUEST: u64 = 0x1_0000;
const REPLY: u64 = 0x20_0000;

/// Size of guest memory in bytes: room for requests and replies of more than the device accepts.
const MEMORY: usize = 0x40_0000;

/// Room for a reply in bytes, unless the caller names another one.
const ROOM: u32 = 0x11_0000;

/// Number of descriptors of the queue.
const QUEUE_SIZE: u16 = 16;

/// Flags of a descriptor (virtio 1.2 §2.7.5).
const NEXT: u16 = 1;
const WRITE: u16 = 2;

/// Identifier of all requests.
const UNIQUE: u64 = 77;

/// A file-system device and its request queue.
#[derive(Debug)]
pub struct FilesClient {
    pub(crate) device: FileSystem,
    memory: GuestMemoryMmap,
    queue: Queue,
    count: u16,
}

impl FilesClient {
    /// Number of descriptors that the device may keep: 48 nodes, 16 handles.
    pub(crate) const MAX_DESCRIPTORS: usize = 64;

    /// Client of a device on a folder.
    ///
    /// # Errors
    ///
    /// The folder cannot be opened.
    ///
    /// # Panics
    ///
    /// The host has no memory.
    pub fn new(folder: &Path, read_only: bool, cache: CachePolicy) -> Result<Self, MountError> {
        let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), MEMORY)]).expect("memory of the host");
        let mut queue = Queue::new(QUEUE_SIZE).expect("a valid size");
        queue.set_desc_table_address(Some(DESCRIPTORS), Some(0));
        queue.set_avail_ring_address(Some(AVAILABLE), Some(0));
        queue.set_used_ring_address(Some(USED), Some(0));
        queue.set_ready(true);
        Ok(Self { device: Self::device(folder, read_only, cache)?, memory, queue, count: 0 })
    }

    /// A device on a folder.
    pub(crate) fn device(
        folder: &Path,
        read_only: bool,
        cache: CachePolicy,
    ) -> Result<FileSystem, MountError> {
        let (host, guest) = (folder.to_owned(), "/srv".to_owned());
        let mount = MountConfig { host, guest, read_only, cache, limits: RateLimits::default() };
        FileSystem::new(&Opener::default(), "fs0".to_owned(), &mount, Self::MAX_DESCRIPTORS)
    }

    /// Descriptor of the folder.
    #[must_use]
    pub fn folder(&self) -> Arc<OwnedFd> {
        self.device.folder()
    }

    /// Begins a session. Returns the reply as [`Self::request`] does.
    pub fn init(&mut self) -> (i32, Vec<u8>) {
        let flags = InitFlags::all().bits();
        let init = InitIn { major: MAJOR_VERSION, minor: MINOR_VERSION, max_readahead: 1 << 17, flags };
        // Later clients send 64 bytes.
        self.request(Opcode::Init.number(), 0, &[init.as_bytes(), &[0; 48]].concat())
    }

    /// Sends a request. Returns the errno of the reply, 0 for success, and the rest of the reply after its
    /// header.
    ///
    /// # Panics
    ///
    /// As [`Self::exchange`]; the reply is invalid.
    pub fn request(&mut self, opcode: u32, nodeid: u64, body: &[u8]) -> (i32, Vec<u8>) {
        let len = u32::try_from(size_of::<InHeader>() + body.len()).expect("a short request");
        let header = InHeader { len, opcode, nodeid, unique: UNIQUE, ..InHeader::default() };
        let reply = self.exchange(&[header.as_bytes(), body].concat(), ROOM);
        let Ok((header, rest)) = OutHeader::read_from_prefix(&reply) else { return (0, reply) };
        assert_eq!((usize::try_from(header.len), header.unique), (Ok(reply.len()), UNIQUE));
        assert!(header.error == 0 || rest.is_empty(), "data behind an error");
        (-header.error, rest.to_vec())
    }

    /// Sends bytes as a request, with room for a reply of this many bytes, and returns the reply.
    ///
    /// # Panics
    ///
    /// The request is too long, or the device fails.
    pub fn exchange(&mut self, request: &[u8], room: u32) -> Vec<u8> {
        self.send(request, room);
        self.receive().expect("the chain is used")
    }

    /// Sends bytes as a request, with room for a reply of this many bytes.
    pub(crate) fn send(&mut self, request: &[u8], room: u32) {
        let memory = &self.memory;
        memory.write_slice(request, GuestAddress(REQUEST)).expect("a short request");
        let len = u32::try_from(request.len()).expect("a short request");
        let chain = [Descriptor::new(REQUEST, len, NEXT, 1), Descriptor::new(REPLY, room, WRITE, 0)];
        for (address, descriptor) in (DESCRIPTORS.into()..).step_by(16).zip(chain) {
            memory.write_obj(descriptor, GuestAddress(address)).expect("the table is in memory");
        }
        // The ring has zeros: the head of each chain.
        self.count = self.count.wrapping_add(1);
        memory.write_obj(self.count, GuestAddress((AVAILABLE + 2).into())).expect("the ring is in memory");
    }

    /// Returns the reply to the last request; `None` if the device has not served it yet.
    pub(crate) fn receive(&mut self) -> Option<Vec<u8>> {
        let memory = &self.memory;
        self.device.process(1, &mut self.queue, memory).expect("the queue is valid");
        let used: u16 = memory.read_obj(GuestAddress((USED + 2).into())).expect("the ring is in memory");
        if used != self.count {
            return None;
        }
        let element = u64::from(USED) + 4 + 8 * u64::from(self.count.wrapping_sub(1) % QUEUE_SIZE);
        let length: u32 = memory.read_obj(GuestAddress(element + 4)).expect("the ring is in memory");
        let mut reply = vec![0; hermit_interface::to_usize(length.into())];
        memory.read_slice(&mut reply, GuestAddress(REPLY)).expect("the reply is in memory");
        Some(reply)
    }

    /// The device.
    #[cfg(test)]
    pub(crate) const fn device_mut(&mut self) -> &mut FileSystem {
        &mut self.device
    }
}
