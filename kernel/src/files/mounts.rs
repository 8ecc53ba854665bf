//! Mounts the virtio-fs devices that the command line names.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Display;
use core::mem;

use hermit_fs::{FileSystem, Unavailable, Vfs};
use hermit_fuse_client::{ConnectError, FuseClient};
use hermit_hal::sync::SpinLock;
use hermit_interface::Errno;
use hermit_interface::command_line::{MountOption, MountOptions};

use super::write_back::write_soon;
use super::{DIRECTORY, Kernel, reclaim_caches};
use crate::devices::{FuseTransport, start_folders};
use crate::threads::lifecycle::set_reclaim_files;
use crate::{command_line, fallible, report};

type Client = FuseClient<FuseTransport>;

/// The connected clients and their devices. After a mount has failed for lack of memory, the next attempt
/// uses the same client, since a server may refuse a second handshake.
static CLIENTS: SpinLock<Vec<(FuseTransport, Arc<Client>)>> = SpinLock::new(Vec::new());

/// Frees the memory of cached names and data, and that which clients keep.
fn reclaim() {
    reclaim_caches();
    write_soon();
    // Each client is called without the lock.
    let client = |index| CLIENTS.lock().get(index).map(|(_, client)| Arc::clone(client));
    (0..).map_while(client).for_each(|client| client.reclaim());
}

/// Mounts all devices that the command line names, and changes to the program's working directory. A device
/// that cannot be mounted is reported, and calls with paths below its mount point fail.
///
/// # Errors
///
/// `ENOMEM`. This is an error, because without one of the folders the program's files there would be only in
/// memory.
pub(super) async fn mount_all(vfs: &Vfs<Kernel>) -> Result<(), Errno> {
    let MountOptions { mounts, working_directory, malformed } = MountOptions::parse(command_line::text())?;
    for word in malformed {
        report::warn(format_args!(
            "`{}` is invalid: use mount=TAG:/PATH, mount=TAG:/PATH:ro or workdir=/PATH",
            word.escape_ascii()
        ));
    }
    for option in mounts {
        // This comes before the first message to a server.
        start_folders()?;
        match mount(vfs, &option).await {
            Err(Errno::ENOMEM) => return Err(Errno::ENOMEM),
            Err(error) => warn(&option, &format_args!("mounting fails with {error}")),
            Ok(()) => {}
        }
    }
    // Names of every file system are cached.
    set_reclaim_files(reclaim);
    match working_directory {
        Some(path) => enter(vfs, &path).await,
        None => Ok(()),
    }
}

/// Changes to the program's working directory. If this fails, ends the machine: in another directory, the
/// program would read and write the wrong files.
async fn enter(vfs: &Vfs<Kernel>, path: &[u8]) -> Result<(), Errno> {
    let (reason, error) = match vfs.change_directory(path).await {
        Ok(()) => return Ok(()),
        Err(Errno::ENOMEM) => return Err(Errno::ENOMEM),
        Err(error @ Errno::ENOENT) => ("it does not exist", error),
        Err(error @ Errno::ENOTDIR) => ("it is not a directory", error),
        Err(error) => ("the file system fails", error),
    };
    report::invalid_configuration(format_args!(
        "the working directory {} cannot be entered: {reason} ({error}); `--mount` and `--root` bring folders of the host",
        path.escape_ascii()
    ))
}

fn warn(option: &MountOption, reason: &dyn Display) {
    report::warn(format_args!("{} is not mounted: {reason}", option.path.escape_ascii()));
}

/// Mounts a device on its directory. Creates the directory and the directories above it if they do not exist.
async fn mount(vfs: &Vfs<Kernel>, option: &MountOption) -> Result<(), Errno> {
    let path = &option.path;
    for (end, _) in path.iter().enumerate().filter(|&(end, byte)| end > 0 && *byte == b'/') {
        create_directory(vfs, path.get(..end).unwrap_or_default()).await?;
    }
    create_directory(vfs, path).await?;
    vfs.mount(connect(option).await?, path, option.is_read_only).await
}

async fn create_directory(vfs: &Vfs<Kernel>, path: &[u8]) -> Result<(), Errno> {
    match vfs.create_directory(path, DIRECTORY).await {
        // If the path is not a directory, the walk below returns the error.
        Ok(()) | Err(Errno::EEXIST) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Returns the file system of a device. If the device cannot be used, returns a file system whose requests
/// all fail.
///
/// # Errors
///
/// `ENOMEM`. Another call tries again.
async fn connect(option: &MountOption) -> Result<Arc<dyn FileSystem<Kernel>>, Errno> {
    let Some(transport) = FuseTransport::find(&option.tag) else {
        let tag = option.tag.escape_ascii();
        let reason = format_args!(
            "no virtio-fs device has the tag {tag}; `--mount` of cargo xtask run and of uhyve adds one"
        );
        warn(option, &reason);
        return unavailable(Errno::ENODEV);
    };
    if let Some(client) = connected(transport) {
        return Ok(client);
    }
    reserve_client()?;
    match FuseClient::connect(transport).await {
        Ok(client) => {
            let client = fallible::arc(client).ok_or(Errno::ENOMEM)?;
            // The vector has room, since only one thread mounts.
            CLIENTS.lock().push((transport, Arc::clone(&client)));
            let file_system: Arc<dyn FileSystem<Kernel>> = client;
            Ok(file_system)
        }
        Err(ConnectError::Refused(Errno::ENOMEM)) => Err(Errno::ENOMEM),
        Err(error) => {
            warn(option, &error);
            unavailable(Errno::EIO)
        }
    }
}

/// Makes room for one more client. Allocates without the lock, because an allocation may call [`reclaim`],
/// which takes the lock.
fn reserve_client() -> Result<(), Errno> {
    let mut clients = mem::take(&mut *CLIENTS.lock());
    let reserved = clients.try_reserve(1).map_err(|_| Errno::ENOMEM);
    *CLIENTS.lock() = clients;
    reserved
}

/// Returns the client of a device, if the device is already connected.
fn connected(transport: FuseTransport) -> Option<Arc<dyn FileSystem<Kernel>>> {
    let clients = CLIENTS.lock();
    let (_, client) = clients.iter().find(|(other, _)| other.is_same(transport))?;
    let file_system: Arc<dyn FileSystem<Kernel>> = Arc::clone(client) as _;
    Some(file_system)
}

fn unavailable(error: Errno) -> Result<Arc<dyn FileSystem<Kernel>>, Errno> {
    let file_system: Arc<dyn FileSystem<Kernel>> = fallible::arc(Unavailable(error)).ok_or(Errno::ENOMEM)?;
    Ok(file_system)
}
