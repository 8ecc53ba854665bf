//! Looking up names.

use alloc::boxed::Box;
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

use super::addresses::{Address, family_number};
use super::{export, export_plain, user};
use crate::net::lookup::resolve;
use crate::threads::errno;

/// Longest name.
const NAME_MAX: usize = 256;

/// Most addresses of a name.
const ADDRESSES_MAX: usize = 32;

/// One answer with its address, so that both go at once.
#[derive(Debug)]
#[repr(C)]
struct Answer {
    /// First: the program has its address.
    info: addrinfo,
    address: Address,
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
struct Question {
    /// [`V4`], [`V6`] or 0.
    family: u16,
    socket_type: i32,
    protocol: i32,
    port: u16,
}

/// Why there is no answer, as `EAI_` number.
type Failure = i32;

impl Question {
    fn new(hints: &addrinfo, service: Option<&[u8]>) -> Result<Self, Failure> {
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
        // There is no table of services: they are numbers.
        let number = |text: &[u8]| str::from_utf8(text).ok()?.parse().ok();
        let port = service.map_or(Ok(0), |text| number(text).ok_or(EAI_SERVICE))?;
        Ok(Self { family, socket_type: hints.ai_socktype, protocol, port })
    }

    /// The addresses of a name, or those of this machine.
    fn addresses(&self, name: Option<&[u8]>, found: &mut [Endpoint]) -> Result<usize, Failure> {
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

    fn literal(&self, address: IpAddr, found: &mut [Endpoint]) -> Result<usize, Failure> {
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

/// Puts addresses into the places; how many.
fn put(places: &mut [Endpoint], addresses: impl Iterator<Item = Endpoint>) -> usize {
    places.iter_mut().zip(addresses).map(|(place, address)| *place = address).count()
}

/// Makes the list that the program gets, from its end on.
fn list(question: Question, addresses: &[Endpoint]) -> *mut addrinfo {
    addresses.iter().rev().fold(ptr::null_mut(), |next, endpoint| {
        let address = Address::new(&Endpoint { port: question.port, ..*endpoint });
        let info = addrinfo {
            ai_flags: 0,
            ai_family: family_number(endpoint.family),
            ai_socktype: question.socket_type,
            ai_protocol: question.protocol,
            ai_addrlen: address.size(),
            ai_canonname: ptr::null_mut(),
            ai_addr: ptr::null_mut(),
            ai_next: next,
        };
        let answer = Box::leak(Box::new(Answer { info, address }));
        answer.info.ai_addr = answer.address.place();
        (&raw mut *answer).cast()
    })
}

/// Looks up a name.
///
/// # Safety
///
/// As for the call.
unsafe fn look_up(
    node: *const c_char,
    service: *const c_char,
    hints: *const addrinfo,
    result: *mut *mut addrinfo,
) -> Result<(), Failure> {
    let text = |pointer: *const c_char| {
        // SAFETY: the program passes texts, or null.
        (!pointer.is_null()).then(|| unsafe { user::text(pointer, NAME_MAX) }).transpose()
    };
    let name = text(node).map_err(|_| EAI_NONAME)?;
    let service = text(service).map_err(|_| EAI_SERVICE)?;
    if name.is_none() && service.is_none() {
        return Err(EAI_NONAME);
    }
    // SAFETY: the program passes hints, or null.
    let hints = unsafe { hints.as_ref() }.copied().unwrap_or(NO_HINTS);
    let question = Question::new(&hints, service)?;
    let mut addresses = [Endpoint::default(); ADDRESSES_MAX];
    let count = question.addresses(name, &mut addresses)?;
    let list = list(question, addresses.get(..count).unwrap_or_default());
    // SAFETY: the program passes a place for the result.
    unsafe { user::write(result, list) }.map_err(|error| {
        errno::set(error);
        EAI_SYSTEM
    })
}

/// Whatever there is.
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
    /// Its errors are `EAI_*`, not `errno`.
    fn sys_getaddrinfo as getaddrinfo(
        node: *const c_char, service: *const c_char, hints: *const addrinfo, result: *mut *mut addrinfo
    ) -> i32 {
        // SAFETY: the program passes texts, hints and a place for the result.
        unsafe { look_up(node, service, hints, result) }.err().unwrap_or(0)
    }

    fn sys_freeaddrinfo as freeaddrinfo(list: *mut addrinfo) {
        let mut next = list;
        while !next.is_null() {
            // SAFETY: the program passes what `getaddrinfo` has given: each is an `Answer` that was leaked.
            let answer = unsafe { Box::from_raw(next.cast::<Answer>()) };
            next = answer.info.ai_next;
        }
    }
}

export! {
    fn sys_getaddrbyname as getaddrbyname(name: *const c_char, address: *mut u8, len: usize) -> i32 {
        // SAFETY: the program passes a text.
        let name = unsafe { user::text(name, NAME_MAX) }?;
        let family = match len {
            4 => V4,
            16 => V6,
            _ => return Err(Errno::EINVAL),
        };
        let question = Question { family, socket_type: 0, protocol: 0, port: 0 };
        let mut found = [Endpoint::default()];
        question.addresses(Some(name), &mut found).map_err(|_| Errno::ENOENT)?;
        let [endpoint] = found;
        // SAFETY: the program passes a buffer of this length that nobody else uses during the call.
        let buffer = unsafe { user::buffer(address, len) }?;
        for (to, from) in buffer.iter_mut().zip(endpoint.address) {
            to.write(from);
        }
        Ok(0)
    }
}
