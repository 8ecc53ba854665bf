//! The file-system device (virtio 1.2 §5.11): a folder of the host that the guest mounts.
//!
//! | module | |
//! | --- | --- |
//! | `message` | requests and replies in descriptor chains, names checked |
//! | `server` | the meaning of the requests |
//! | `slots` | tables of nodes and handles, which the guest names by numbers |
//! | `folder` | calls on files of the host, confined to the folder |
//! | `vectored` | reads and writes between files and guest memory |
//!
//! The guest may be hostile, so a path of the guest is never passed to the host. Instead, a request names a
//! node that the guest has looked up, and a single path component in it. The device holds a descriptor for
//! each such node. It never follows symbolic links: the guest reads a link's target, and follows it in its
//! own tree.

mod config;
mod folder;
mod message;
mod server;
mod slots;
mod vectored;

use std::mem;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use hermit_fuse::{Opcode, VIRTIO_DEVICE_ID};
use hermit_options::mount::{MountConfig, MountError};
use hermit_options::open::{Kind, Opener};
use virtio_queue::Queue;
use vm_memory::GuestMemoryMmap;

use self::config::{HIGH_PRIORITY, QUEUE_SIZES};
use self::folder::Folder;
use self::message::RequestError;
use self::server::{Budget, Policy, Server};
use super::rate_limiter::RateLimiter;
use super::virtio::chain::{Chain, Completion, serve_chains, serve_limited_chains};
use super::virtio::{DeviceError, HostEvent, QueueProgress, VirtioDevice, read_window};
use super::warn_once::WarnOnce;

/// A virtio file-system device on a folder of the host.
#[derive(Debug)]
pub struct FileSystem {
    tag: String,
    server: Server,
    limiter: RateLimiter,
    invalid_request: WarnOnce,
}

impl FileSystem {
    /// Opens the folder. The device keeps at most `max_descriptors` file descriptors open.
    ///
    /// # Errors
    ///
    /// The folder cannot be opened.
    pub fn new(
        opener: &Opener,
        tag: String,
        mount: &MountConfig,
        max_descriptors: usize,
    ) -> Result<Self, MountError> {
        let folder = opener.find(&mount.host, Kind::Folder).and_then(Folder::new);
        let folder = folder.map_err(|source| MountError { folder: mount.host.clone(), source })?;
        let policy = Policy { is_read_only: mount.read_only, cache: mount.cache };
        let server = Server::new(folder, policy, Budget::new(max_descriptors));
        let invalid_request = WarnOnce::default();
        Ok(Self { tag, server, limiter: RateLimiter::default(), invalid_request })
    }

    /// Sets the limits of bytes and requests per second.
    pub fn set_limiter(&mut self, limiter: RateLimiter) {
        self.limiter = limiter;
    }

    /// Returns the descriptor of the folder (`O_PATH`).
    #[must_use]
    pub fn folder(&self) -> Arc<OwnedFd> {
        self.server.folder()
    }

    /// Executes the request in `chain`. Returns the number of bytes written to the chain.
    fn handle(&mut self, chain: Chain, memory: &GuestMemoryMmap) -> Result<u32, DeviceError> {
        let Some((mut request, mut reply)) = message::parse(chain, memory)? else {
            self.invalid_request.warn(format_args!("files: request without a header"));
            return Ok(0);
        };
        let opcode = Opcode::from_number(request.header.opcode);
        let has_reply = !opcode.is_some_and(Opcode::has_no_reply);
        if has_reply && !reply.has_header() {
            self.invalid_request.warn(format_args!("files: request without room for a reply"));
            return Ok(0);
        }
        let unique = request.header.unique;
        let error = match self.server.handle(opcode, &mut request, &mut reply) {
            Ok(()) => None,
            Err(RequestError::Errno(error)) => Some(error),
            Err(RequestError::Device(error)) => return Err(error),
        };
        if has_reply { reply.finish(unique, error) } else { Ok(0) }
    }
}

impl VirtioDevice for FileSystem {
    fn device_type(&self) -> u32 {
        VIRTIO_DEVICE_ID
    }

    fn queue_sizes(&self) -> &'static [u16] {
        &QUEUE_SIZES
    }

    fn read_config(&self, offset: u64, data: &mut [u8]) {
        read_window(&config::config_space(&self.tag), offset, data);
    }

    fn reset(&mut self) {
        self.server.reset();
    }

    fn process(
        &mut self,
        index: usize,
        queue: &mut Queue,
        memory: &GuestMemoryMmap,
    ) -> Result<QueueProgress, DeviceError> {
        let serve = |device: &mut Self, chain: Chain| {
            let work = chain.length();
            let written = device.handle(chain, memory)?;
            Ok(Completion { written, work })
        };
        if index == HIGH_PRIORITY {
            // This queue only drops references (FORGET), which frees memory of the host, so it has no rate
            // limit.
            return serve_chains(queue, memory, |chain| serve(self, chain));
        }
        let mut limiter = mem::take(&mut self.limiter);
        let progress = serve_limited_chains(queue, memory, &mut limiter, |chain| serve(self, chain));
        self.limiter = limiter;
        progress
    }

    fn host_event(&self, index: usize) -> Option<HostEvent> {
        if index == HIGH_PRIORITY { None } else { self.limiter.timer() }
    }

    fn lift_limits(&mut self) {
        self.limiter.lift();
    }

    // All queues count as output, so that writes that the guest has made before its end reach the host.
    fn is_output(&self, _index: usize) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
