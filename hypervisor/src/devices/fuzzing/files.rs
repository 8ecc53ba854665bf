//! Fuzz target of the file-system device, and the client of FUSE that it is driven by.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use hermit_fuse::flags::InitFlags;
use hermit_fuse::request::InitIn;
use hermit_fuse::{InHeader, MAJOR_VERSION, MINOR_VERSION, Opcode, OutHeader};
use hermit_options::mount::{CachePolicy, MountConfig, MountError};
use virtio_queue::desc::split::Descriptor;
use virtio_queue::{Queue, QueueT};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};
use zerocopy::{FromBytes, IntoBytes};

use super::ByteSource;
use crate::devices::fs::FileSystem;
use crate::devices::virtio::VirtioDevice;

/// Addresses of the parts of the queue, of a request and of a reply.
const DESCRIPTORS: u32 = 0;
const AVAILABLE: u32 = 0x1000;
const USED: u32 = 0x2000;
const REQUEST: u64 = 0x3000;
const REPLY: u64 = 0x8000;

/// Size of guest memory in bytes; the room for a reply is its second half.
const MEMORY: usize = 0x1_0000;
const ROOM: u32 = 0x8000;

/// Number of descriptors of the queue.
const QUEUE_SIZE: u16 = 16;

/// Flags of a descriptor (virtio 1.2 §2.7.5).
const NEXT: u16 = 1;
const WRITE: u16 = 2;

/// Content of a file beside the mounted folder.
const SECRET: &[u8] = b"secret";

/// A file-system device and a queue, in a session of FUSE.
#[derive(Debug)]
pub struct FilesClient {
    device: FileSystem,
    memory: GuestMemoryMmap,
    queue: Queue,
    count: u16,
}

impl FilesClient {
    /// Opens a folder, and begins a session.
    ///
    /// # Errors
    ///
    /// The folder cannot be opened.
    ///
    /// # Panics
    ///
    /// The host has no memory.
    pub fn new(folder: &Path, read_only: bool) -> Result<Self, MountError> {
        let (guest, cache) = ("/a".to_owned(), CachePolicy::Auto);
        let mount = MountConfig { host: folder.to_owned(), guest, read_only, cache };
        let device = FileSystem::new("fs0".to_owned(), &mount, 64)?;
        let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), MEMORY)]).expect("memory of the host");
        let mut queue = Queue::new(QUEUE_SIZE).expect("a valid size");
        queue.set_desc_table_address(Some(DESCRIPTORS), Some(0));
        queue.set_avail_ring_address(Some(AVAILABLE), Some(0));
        queue.set_used_ring_address(Some(USED), Some(0));
        queue.set_ready(true);
        Ok(Self { device, memory, queue, count: 0 })
    }

    /// Descriptor of the folder.
    #[must_use]
    pub fn folder(&self) -> Arc<OwnedFd> {
        self.device.folder()
    }

    /// Begins a session.
    pub fn init(&mut self) {
        let flags = InitFlags::all().bits();
        let init = InitIn { major: MAJOR_VERSION, minor: MINOR_VERSION, max_readahead: 0, flags };
        self.request(Opcode::Init.number(), 0, init.as_bytes());
    }

    /// Sends a request, and returns the errno of the reply, 0 for success, and what follows its header.
    ///
    /// # Panics
    ///
    /// The request is too long, the device fails, or the reply is invalid.
    pub fn request(&mut self, opcode: u32, nodeid: u64, body: &[u8]) -> (i32, Vec<u8>) {
        let len = u32::try_from(size_of::<InHeader>() + body.len()).expect("a short request");
        let header = InHeader { len, opcode, nodeid, unique: 1, ..InHeader::default() };
        let request = [header.as_bytes(), body].concat();
        let memory = &self.memory;
        memory.write_slice(&request, GuestAddress(REQUEST)).expect("a short request");
        let (first, second) =
            (Descriptor::new(REQUEST, len, NEXT, 1), Descriptor::new(REPLY, ROOM, WRITE, 0));
        memory.write_obj(first, GuestAddress(DESCRIPTORS.into())).expect("the descriptor is in memory");
        memory
            .write_obj(second, GuestAddress((DESCRIPTORS + 16).into()))
            .expect("the descriptor is in memory");
        // The ring has zeros: the head of each chain.
        self.count = self.count.wrapping_add(1);
        memory.write_obj(self.count, GuestAddress((AVAILABLE + 2).into())).expect("the ring is in memory");
        self.device.process(1, &mut self.queue, memory).expect("the queue is valid");
        let element = u64::from(USED) + 4 + 8 * u64::from(self.count.wrapping_sub(1) % QUEUE_SIZE);
        let length: u32 = memory.read_obj(GuestAddress(element + 4)).expect("the ring is in memory");
        let mut reply = vec![0; hermit_interface::to_usize(length.into())];
        memory.read_slice(&mut reply, GuestAddress(REPLY)).expect("the reply is in memory");
        let Ok((header, rest)) = OutHeader::read_from_prefix(&reply) else { return (0, reply) };
        assert_eq!((header.len, header.unique), (length, 1));
        (-header.error, rest.to_vec())
    }
}

/// A session of FUSE: `data` is a sequence of requests, each an opcode, a node, the size of a body, and the body. They find a
/// folder with a file, a directory, and symbolic links that lead out of it.
///
/// # Panics
///
/// The device fails, a reply is invalid, or a file outside of the folder has changed.
pub fn files(data: &[u8]) {
    let Some(folder) = folder() else { return };
    let is_read_only = data.first().is_some_and(|byte| byte % 2 == 0);
    let Ok(mut client) = FilesClient::new(&folder.join("mounted"), is_read_only) else { return };
    client.init();
    let mut source = ByteSource(data);
    while let Some([opcode, node, size]) = source.take() {
        let body: Vec<u8> = source.up_to(size.into()).iter().map(|&byte| letter(byte)).collect();
        // The low numbers are those of the first nodes and handles.
        client.request(opcode.into(), node.into(), &body);
    }
    let secret = fs::read(folder.join("outside/secret")).unwrap_or_default();
    assert_eq!(secret, SECRET, "a file outside of the folder has changed");
}

/// Bytes from 8 on become characters of names, so that names are likely to be those of the folder.
fn letter(byte: u8) -> u8 {
    if byte < 8 { byte } else { b"fdlu./x\0".get(usize::from(byte % 8)).copied().unwrap_or_default() }
}

/// The folder, made once for a process, in which the targets leave what they make.
fn folder() -> Option<&'static Path> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOLDER.get_or_init(|| make().ok()).as_deref()
}

fn make() -> std::io::Result<PathBuf> {
    let folder = std::env::temp_dir().join(format!("uhyve-fuzz-{}", std::process::id()));
    fs::create_dir_all(folder.join("mounted/d"))?;
    fs::create_dir_all(folder.join("outside"))?;
    fs::write(folder.join("outside/secret"), SECRET)?;
    fs::write(folder.join("mounted/f"), b"file")?;
    std::os::unix::fs::symlink(folder.join("outside/secret"), folder.join("mounted/l"))?;
    std::os::unix::fs::symlink(folder.join("outside"), folder.join("mounted/u"))?;
    Ok(folder)
}
