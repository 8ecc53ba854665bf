//! Name resolution: `getaddrinfo`.

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
use hermit_interface::Errno;
use hermit_interface::net::{Endpoint, V4, V6};

use super::user::{UserOut, UserPtr, UserText};
use super::{export, export_plain};
use crate::net::inet::address::{Address, family_number};
use crate::net::lookup::resolve;
use crate::threads::errno;

/// Maximum length of a host or service name in bytes.
const MAX_NAME_LEN: usize = 256;

/// Maximum number of addresses returned for a name.
const MAX_ADDRESSES: usize = 32;

/// An entry of the result list, allocated together with its address.
#[derive(Debug)]
#[repr(C)]
struct ResultEntry {
    /// First field: the program has a pointer to it, which is also that of the entry.
    info: addrinfo,
    address: Address,
}

/// The arguments of a lookup.
#[derive(Clone, Copy, Debug)]
struct Lookup {
    /// [`V4`], [`V6`] or 0.
    family: u16,
    socket_type: i32,
    protocol: i32,
    port: u16,
}

/// An `EAI_` number.
type GaiError = i32;

impl Lookup {
    fn new(hints: &addrinfo, service: Option<&[u8]>) -> Result<Self, GaiError> {
        let family = match hints.ai_family {
            AF_UNSPEC => 0,
            AF_INET => V4,
            AF_INET6 => V6,
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
        Ok(Self { family, socket_type: hints.ai_socktype, protocol, port })
    }

    /// Writes the addresses of `name`, or loopback addresses without a name, to `found`; returns their number.
    fn addresses(&self, name: Option<&[u8]>, found: &mut [Endpoint]) -> Result<usize, GaiError> {
        let Some(name) = name else { return Ok(self.loopback(found)) };
        if name.is_empty() {
            return Err(EAI_NONAME);
        }
        if let Some(address) = str::from_utf8(name).ok().and_then(|name| name.parse().ok()) {
            return self.literal(address, found);
        }
        let count = resolve(name, self.family.into(), found).map_err(|error| match error {
            Errno::ENOENT | Errno::EINVAL => EAI_NONAME,
            Errno::ETIMEDOUT | Errno::ENETUNREACH => EAI_AGAIN,
            Errno::ENOMEM => EAI_MEMORY,
            error => {
                errno::set(error);
                EAI_SYSTEM
            }
        })?;
        if count == 0 { Err(EAI_NODATA) } else { Ok(count) }
    }

    /// The address that the name spells, if it is an address.
    fn literal(&self, address: IpAddr, found: &mut [Endpoint]) -> Result<usize, GaiError> {
        let endpoint = Endpoint::from(address);
        if self.family != 0 && self.family != endpoint.family {
            return Err(EAI_NONAME);
        }
        Ok(put(found, [endpoint].into_iter()))
    }

    fn loopback(&self, found: &mut [Endpoint]) -> usize {
        let all = [IpAddr::V6(Ipv6Addr::LOCALHOST), IpAddr::from([127, 0, 0, 1])].map(Endpoint::from);
        let wanted = |address: &Endpoint| self.family == 0 || self.family == address.family;
        put(found, all.into_iter().filter(wanted))
    }
}

/// Writes addresses to the start of `found`; returns their number.
fn put(found: &mut [Endpoint], addresses: impl Iterator<Item = Endpoint>) -> usize {
    found.iter_mut().zip(addresses).map(|(slot, address)| *slot = address).count()
}

/// Moves an entry to memory of its own; `None` without memory. It is freed as a `Box`.
fn allocate<'a>(entry: ResultEntry) -> Option<&'a mut ResultEntry> {
    let mut block = Vec::new();
    block.try_reserve_exact(1).ok()?;
    block.push(entry);
    Box::leak(block.into_boxed_slice()).first_mut()
}

/// Allocates the linked list that the program gets, from its end on; `EAI_MEMORY`.
fn list(lookup: Lookup, addresses: &[Endpoint]) -> Result<*mut addrinfo, GaiError> {
    let mut next = ptr::null_mut();
    for endpoint in addresses.iter().rev() {
        let address = Address::new(&Endpoint { port: lookup.port, ..*endpoint });
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
            // SAFETY: the list consists of the entries that this loop has allocated, and no other code has a pointer to it.
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
/// Each `addrinfo` of the list must be the first field of a `ResultEntry` of [`allocate`], and not be used any more.
unsafe fn free(list: *mut addrinfo) {
    let mut next = list;
    while !next.is_null() {
        // SAFETY: the pointer is to an entry (contract), with which `allocate` has leaked a boxed slice of one: its
        // memory has the layout of a box of the entry.
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
    let mut addresses = [Endpoint::default(); MAX_ADDRESSES];
    let count = lookup.addresses(name, &mut addresses)?;
    let list = list(lookup, addresses.get(..count).unwrap_or_default())?;
    out.write(list).map_err(|error| {
        // SAFETY: the list was allocated above, and the program has not got it.
        unsafe { free(list) };
        system_error(error)
    })
}

/// Hints for a lookup without any: all families, types and protocols.
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
        // SAFETY: the ABI requires that the list is one of `getaddrinfo` and not freed yet: each `addrinfo` of it is
        // the first field of an entry that `self::list` has allocated.
        unsafe { free(list) };
    }
}

export! {
    fn sys_getaddrbyname as getaddrbyname(name: *const c_char, address: *mut u8, len: usize) -> i32
    where name: UserText::new(name), buffer: UserBuffer::buffer(address, len) {
        let name = name.get(MAX_NAME_LEN)?;
        let family = match len {
            4 => V4,
            16 => V6,
            _ => return Err(Errno::EINVAL),
        };
        let lookup = Lookup { family, socket_type: 0, protocol: 0, port: 0 };
        let mut found = [Endpoint::default()];
        lookup.addresses(Some(name), &mut found).map_err(|_| Errno::ENOENT)?;
        let [endpoint] = found;
        for (to, from) in buffer.get()?.iter_mut().zip(endpoint.address) {
            to.write(from);
        }
        Ok(0)
    }
}
