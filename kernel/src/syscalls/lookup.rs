//! Name resolution: `getaddrinfo`, and the files that it reads.
//!
//! The result is a linked list that C code walks and `freeaddrinfo` frees. Each entry is one allocation: the
//! `addrinfo` is its first field, and the socket address follows. So the program's pointer to the `addrinfo`
//! is also the pointer to the allocation. The lookup itself is in [`crate::net::lookup`]. Files are read
//! through [`OPEN_TO_READ`]. If the program does not use files, they are read from the initramfs, which is
//! then unchanged.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ffi::c_char;
use core::net::{IpAddr, Ipv6Addr};
use core::ptr;
use core::str;

use hermit_abi::{
    AF_INET, AF_INET6, AF_UNSPEC, EAI_AGAIN, EAI_FAMILY, EAI_MEMORY, EAI_NODATA, EAI_NONAME, EAI_SERVICE,
    EAI_SOCKTYPE, EAI_SYSTEM, IPPROTO_TCP, IPPROTO_UDP, SOCK_DGRAM, SOCK_STREAM, addrinfo,
};
use hermit_hal::initramfs;
use hermit_interface::Errno;
use hermit_interface::net::Endpoint;
use hermit_interface::tar::{Content, Entries};
use hermit_io::ReadBuffer;
use hermit_resolver::{Address as Found, Families, LookupError, MAX_FILE_LEN};

use super::user::{UserOut, UserPtr, UserText};
use super::{export, export_plain};
use crate::descriptors::{self, FileObject, Handle, OPEN_TO_READ};
use crate::net::inet::address::{Address, family_number};
use crate::net::lookup::{Failure, resolve};
use crate::threads::errno;

/// Maximum length of a host or service name in bytes.
const MAX_NAME_LEN: usize = 256;

/// Number of bytes by which the memory for a file's text grows.
const CHUNK_SIZE: usize = 4096;

/// An entry of the result list, allocated together with its address.
#[derive(Debug)]
#[repr(C)]
struct ResultEntry {
    /// The first field, so that the program's pointer to it is also the pointer to the entry.
    info: addrinfo,
    address: Address,
}

/// The arguments of a lookup.
#[derive(Clone, Copy, Debug)]
struct Lookup {
    families: Families,
    socket_type: i32,
    protocol: i32,
    port: u16,
}

/// An `EAI_` number.
type GaiError = i32;

impl Lookup {
    fn new(hints: &addrinfo, service: Option<&[u8]>) -> Result<Self, GaiError> {
        let families = match hints.ai_family {
            AF_UNSPEC => Families::Both,
            AF_INET => Families::V4,
            AF_INET6 => Families::V6,
            _ => return Err(EAI_FAMILY),
        };
        let protocol = match (hints.ai_socktype, hints.ai_protocol) {
            (0, protocol) => protocol,
            (SOCK_STREAM, 0 | IPPROTO_TCP) => IPPROTO_TCP,
            (SOCK_DGRAM, 0 | IPPROTO_UDP) => IPPROTO_UDP,
            _ => return Err(EAI_SOCKTYPE),
        };
        // There is no `/etc/services`: services are port numbers.
        let number = |text: &[u8]| str::from_utf8(text).ok()?.parse().ok();
        let port = service.map_or(Ok(0), |text| number(text).ok_or(EAI_SERVICE))?;
        Ok(Self { families, socket_type: hints.ai_socktype, protocol, port })
    }

    /// Returns the addresses of `name`, or loopback addresses if there is no name.
    fn addresses(&self, name: Option<&[u8]>) -> Result<Vec<Found>, GaiError> {
        let Some(name) = name else { return self.loopback() };
        resolve(name, self.families, file_text).map_err(|failure| match failure {
            Failure::Lookup(LookupError::NoName) => EAI_NONAME,
            Failure::Lookup(LookupError::NoData) => EAI_NODATA,
            Failure::Lookup(LookupError::Again) => EAI_AGAIN,
            Failure::Lookup(LookupError::Memory) => EAI_MEMORY,
            Failure::System(error) => {
                errno::set(error);
                EAI_SYSTEM
            }
        })
    }

    fn loopback(&self) -> Result<Vec<Found>, GaiError> {
        let all = [IpAddr::V6(Ipv6Addr::LOCALHOST), IpAddr::from([127, 0, 0, 1])];
        let mut found = Vec::new();
        found.try_reserve_exact(all.len()).map_err(|_| EAI_MEMORY)?;
        found.extend(all.into_iter().filter(|address| self.families.contains(address)).map(Found::from));
        Ok(found)
    }
}

/// Returns the text of a file, up to [`MAX_FILE_LEN`] bytes. The text is empty if the file cannot be read.
///
/// # Errors
///
/// `ENOMEM`.
fn file_text(path: &[u8]) -> Result<Vec<u8>, Errno> {
    // Without mounted files, the files of the initramfs are unchanged.
    let Some(open) = OPEN_TO_READ.get() else { return initial_text(path) };
    let descriptor = match open(path) {
        Err(Errno::ENOMEM) => return Err(Errno::ENOMEM),
        Err(_) => return Ok(Vec::new()),
        Ok(descriptor) => descriptor,
    };
    let text = match descriptors::handle(descriptor) {
        Ok(Handle::File(file)) => read_text(file.file()),
        _ => Ok(Vec::new()),
    };
    // Nothing was written to the file, so the close has no error to report.
    let _: Result<(), Errno> = descriptors::close_one(descriptor);
    text
}

/// Text of a file that is open.
fn read_text(file: &dyn FileObject) -> Result<Vec<u8>, Errno> {
    let mut text: Vec<u8> = Vec::new();
    while text.len() < MAX_FILE_LEN {
        text.try_reserve(CHUNK_SIZE).map_err(|_| Errno::ENOMEM)?;
        let room = text.spare_capacity_mut();
        let start = room.as_ptr();
        let mut buffer = ReadBuffer::new(room);
        if file.read(&mut buffer).is_err() || buffer.is_empty() {
            break;
        }
        assert!(buffer.starts_at(start), "a read has put another buffer in the place of its own");
        let count = buffer.len();
        let len = text.len() + count;
        // SAFETY: a read buffer counts only bytes that have been written to it. It begins directly after the
        // vector's bytes (asserted), where no other buffer can begin.
        unsafe { text.set_len(len) };
    }
    Ok(text)
}

/// Returns the text of a file in the initramfs. If the archive has several entries for the file, the last one
/// is used.
fn initial_text(path: &[u8]) -> Result<Vec<u8>, Errno> {
    let entries = initramfs::archive().map(Entries::new).into_iter().flatten().map_while(Result::ok);
    let names = || path.split(|&byte| byte == b'/').filter(|name| !name.is_empty());
    let file = entries.filter(|entry| entry.path.names().eq(names())).last();
    let mut text = Vec::new();
    if let Some(Content::File(bytes)) = file.map(|entry| entry.content) {
        let bytes = bytes.get(..MAX_FILE_LEN).unwrap_or(bytes);
        text.try_reserve_exact(bytes.len()).map_err(|_| Errno::ENOMEM)?;
        text.extend_from_slice(bytes);
    }
    Ok(text)
}

/// Moves an entry to memory of its own, which is later freed as a `Box`. Returns `None` without memory.
fn allocate<'a>(entry: ResultEntry) -> Option<&'a mut ResultEntry> {
    let mut block = Vec::new();
    block.try_reserve_exact(1).ok()?;
    block.push(entry);
    Box::leak(block.into_boxed_slice()).first_mut()
}

/// Allocates the linked list for the program, starting with its last entry. Fails with `EAI_MEMORY`.
fn list(lookup: Lookup, addresses: &[Found]) -> Result<*mut addrinfo, GaiError> {
    let mut next = ptr::null_mut();
    for found in addresses.iter().rev() {
        let endpoint = Endpoint { port: lookup.port, scope: found.scope, ..Endpoint::from(found.ip) };
        let address = Address::new(&endpoint);
        let info = addrinfo {
            ai_flags: 0,
            ai_family: family_number(endpoint.family),
            ai_socktype: lookup.socket_type,
            ai_protocol: lookup.protocol,
            ai_addrlen: address.size(),
            ai_canonname: ptr::null_mut(),
            ai_addr: ptr::null_mut(),
            ai_next: next,
        };
        let Some(entry) = allocate(ResultEntry { info, address }) else {
            // SAFETY: the list consists of the entries that this loop has allocated, and no other code has a
            // pointer to it.
            unsafe { free(next) };
            return Err(EAI_MEMORY);
        };
        entry.info.ai_addr = entry.address.as_mut_ptr();
        next = (&raw mut *entry).cast();
    }
    Ok(next)
}

/// Frees a list.
///
/// # Safety
///
/// Each `addrinfo` of the list must be the first field of a `ResultEntry` of [`allocate`], and not be used
/// any more.
unsafe fn free(list: *mut addrinfo) {
    let mut next = list;
    while !next.is_null() {
        // SAFETY: the pointer is to an entry (contract), with which `allocate` has leaked a boxed slice of
        // one: its memory has the layout of a box of the entry.
        let entry = unsafe { Box::from_raw(next.cast::<ResultEntry>()) };
        next = entry.info.ai_next;
    }
}

/// The body of `getaddrinfo`.
fn look_up(
    node: UserText<'_>,
    service: UserText<'_>,
    hints: UserPtr<'_, addrinfo>,
    out: UserOut<'_, *mut addrinfo>,
) -> Result<(), GaiError> {
    let system_error = |error| {
        errno::set(error);
        EAI_SYSTEM
    };
    let name = node.get_if_some(MAX_NAME_LEN).map_err(|_| EAI_NONAME)?;
    let service = service.get_if_some(MAX_NAME_LEN).map_err(|_| EAI_SERVICE)?;
    if name.is_none() && service.is_none() {
        return Err(EAI_NONAME);
    }
    let hints = if hints.is_null() { NO_HINTS } else { hints.read().map_err(system_error)? };
    let lookup = Lookup::new(&hints, service)?;
    let list = list(lookup, &lookup.addresses(name)?)?;
    out.write(list).map_err(|error| {
        // SAFETY: the list was allocated above, and the program has not got it.
        unsafe { free(list) };
        system_error(error)
    })
}

/// The hints if the program passes none: all families, types and protocols.
const NO_HINTS: addrinfo = addrinfo {
    ai_flags: 0,
    ai_family: AF_UNSPEC,
    ai_socktype: 0,
    ai_protocol: 0,
    ai_addrlen: 0,
    ai_canonname: ptr::null_mut(),
    ai_addr: ptr::null_mut(),
    ai_next: ptr::null_mut(),
};

export_plain! {
    /// Returns an `EAI_` number on failure, not `-errno`.
    fn sys_getaddrinfo as getaddrinfo(
        node: *const c_char, service: *const c_char, hints: *const addrinfo, result: *mut *mut addrinfo
    ) -> i32
    where node: UserText::new(node), service: UserText::new(service), hints: UserPtr::new(hints),
        out: UserOut::new(result) {
        look_up(node, service, hints, out).err().unwrap_or(0)
    }

    fn sys_freeaddrinfo as freeaddrinfo(list: *mut addrinfo) {
        // SAFETY: the ABI requires that the list is one of `getaddrinfo` and not freed yet: each `addrinfo`
        // of it is the first field of an entry that `self::list` has allocated.
        unsafe { free(list) };
    }
}

export! {
    fn sys_getaddrbyname as getaddrbyname(name: *const c_char, address: *mut u8, len: usize) -> i32
    where name: UserText::new(name), buffer: UserBuffer::buffer(address, len) {
        let name = name.get(MAX_NAME_LEN)?;
        let families = match len {
            4 => Families::V4,
            16 => Families::V6,
            _ => return Err(Errno::EINVAL),
        };
        let lookup = Lookup { families, socket_type: 0, protocol: 0, port: 0 };
        let found = lookup.addresses(Some(name)).map_err(|_| Errno::ENOENT)?;
        let first = Endpoint::from(found.first().ok_or(Errno::ENOENT)?.ip);
        for (to, from) in buffer.get()?.iter_mut().zip(first.address) {
            to.write(from);
        }
        Ok(0)
    }
}
