//! The stack's functions as the kernel calls them.
#![expect(unsafe_code, reason = "the kernel passes pointers")]

use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::{slice, str};

use hermit_interface::Errno;
use hermit_interface::net::{self, Calls, DATAGRAM, Endpoint, Number, STREAM, SocketOption, V4, V6, ready};
use hermit_net_stack::{Families, Family, Kind, QueryId, ResolveError, Shutdown, SocketId};

use crate::addresses::{from_kernel, to_kernel};
use crate::options;
use crate::start::MachineStack;

/// The table.
pub(crate) const CALLS: Calls = Calls {
    advance,
    poll,
    settle,
    is_configured,
    socket,
    finish,
    wind_up,
    is_delivered,
    close,
    bind,
    listen,
    accept,
    connect,
    send,
    receive,
    shutdown,
    local,
    remote,
    set_option,
    option,
    readiness,
    resolve,
    resolved,
};

/// Whoever shuts down says which half by a number of the ABI.
fn half(how: i32) -> Result<Shutdown, Errno> {
    match how {
        hermit_abi::SHUT_RD => Ok(Shutdown::Read),
        hermit_abi::SHUT_WR => Ok(Shutdown::Write),
        hermit_abi::SHUT_RDWR => Ok(Shutdown::Both),
        _ => Err(Errno::EINVAL),
    }
}

/// What a call returns.
fn returned(result: Result<u64, Errno>) -> Number {
    result.map_or_else(
        |error| -Number::from(error.number()),
        |number| Number::try_from(number).unwrap_or(Number::MAX),
    )
}

/// What a call returns that gives nothing.
fn done(result: Result<(), Errno>) -> Number {
    returned(result.map(|()| 0))
}

/// The stack.
///
/// # Safety
///
/// It is the kernel's pointer, and the kernel has the lock around the stack until the call returns.
unsafe fn of<'a>(stack: *mut c_void) -> &'a mut MachineStack {
    // SAFETY: the caller's promise: it is what `start` has made, and nobody else is in it.
    unsafe { &mut *stack.cast() }
}

/// Writes a value for the kernel.
///
/// # Safety
///
/// Null, or valid for a write.
unsafe fn write<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: the caller's promise.
        unsafe { place.write(value) };
    }
}

// SAFETY of all that follows: the kernel keeps the contract of `hermit_interface::net`: it passes the stack and has the lock around it,
// and other pointers are to what the table says, or null where it says so.

unsafe extern "C" fn advance(stack: *mut c_void, now: u64) {
    // SAFETY: see above.
    unsafe { of(stack) }.advance(now);
}

unsafe extern "C" fn poll(stack: *mut c_void, now: u64) -> u64 {
    // SAFETY: see above.
    unsafe { of(stack) }.poll(now).unwrap_or(u64::MAX)
}

unsafe extern "C" fn settle(stack: *mut c_void, now: u64) -> u64 {
    // SAFETY: see above.
    unsafe { of(stack) }.settle(now).unwrap_or(u64::MAX)
}

unsafe extern "C" fn is_configured(stack: *mut c_void) -> bool {
    // SAFETY: see above.
    unsafe { of(stack) }.is_configured()
}

unsafe extern "C" fn socket(stack: *mut c_void, family: u32, kind: u32, cookie: usize) -> Number {
    let family = if family == u32::from(V4) { Family::V4 } else { Family::V6 };
    let kind = match kind {
        STREAM => Kind::Stream,
        DATAGRAM => Kind::Datagram,
        _ => return done(Err(Errno::ESOCKTNOSUPPORT)),
    };
    // SAFETY: see above.
    returned(unsafe { of(stack) }.socket(family, kind, cookie).map(SocketId::into_raw))
}

unsafe extern "C" fn wind_up(stack: *mut c_void) {
    // SAFETY: see above.
    unsafe { of(stack) }.wind_up();
}

unsafe extern "C" fn is_delivered(stack: *mut c_void) -> bool {
    // SAFETY: see above.
    unsafe { of(stack) }.is_delivered()
}

unsafe extern "C" fn finish(stack: *mut c_void, socket: u64) -> Number {
    // SAFETY: see above.
    done(unsafe { of(stack) }.finish(SocketId::from_raw(socket)))
}

unsafe extern "C" fn close(stack: *mut c_void, socket: u64, at_once: bool) {
    // SAFETY: see above.
    let stack = unsafe { of(stack) };
    let id = SocketId::from_raw(socket);
    let closed = if at_once { stack.close_now(id) } else { stack.close(id) };
    // The kernel has it, so it is there.
    let _: Result<(), Errno> = closed;
}

unsafe extern "C" fn bind(stack: *mut c_void, socket: u64, address: *const Endpoint) -> Number {
    // SAFETY: see above.
    let stack = unsafe { of(stack) };
    // SAFETY: see above.
    let address = unsafe { *address };
    done(from_kernel(&address).and_then(|address| stack.bind(SocketId::from_raw(socket), address)))
}

unsafe extern "C" fn listen(stack: *mut c_void, socket: u64, backlog: i32) -> Number {
    // SAFETY: see above.
    done(unsafe { of(stack) }.listen(SocketId::from_raw(socket), backlog))
}

unsafe extern "C" fn accept(stack: *mut c_void, socket: u64, cookie: usize, place: *mut Endpoint) -> Number {
    // SAFETY: see above.
    let accepted = unsafe { of(stack) }.accept(SocketId::from_raw(socket), cookie);
    returned(accepted.map(|(accepted, from)| {
        // SAFETY: see above.
        unsafe { write(place, to_kernel(from)) };
        accepted.into_raw()
    }))
}

unsafe extern "C" fn connect(stack: *mut c_void, socket: u64, address: *const Endpoint) -> Number {
    // SAFETY: see above.
    let stack = unsafe { of(stack) };
    // SAFETY: see above.
    let address = unsafe { *address };
    let id = SocketId::from_raw(socket);
    if address.family == 0 {
        return done(stack.disconnect(id));
    }
    done(from_kernel(&address).and_then(|address| stack.connect(id, address)))
}

unsafe extern "C" fn send(
    stack: *mut c_void,
    socket: u64,
    bytes: *const u8,
    size: usize,
    to: *const Endpoint,
) -> Number {
    // SAFETY: see above.
    let stack = unsafe { of(stack) };
    // SAFETY: see above; the kernel's slices are never null.
    let bytes = unsafe { slice::from_raw_parts(bytes, size) };
    // SAFETY: see above.
    let to = unsafe { to.as_ref() };
    let sent =
        to.map(from_kernel).transpose().and_then(|to| stack.send(SocketId::from_raw(socket), bytes, to));
    returned(sent.map(|count| count as u64))
}

unsafe extern "C" fn receive(
    stack: *mut c_void,
    socket: u64,
    buffer: *mut u8,
    size: usize,
    flags: u32,
    place: *mut Endpoint,
) -> Number {
    // SAFETY: see above.
    let stack = unsafe { of(stack) };
    // SAFETY: see above; the kernel's slices are never null.
    let buffer = unsafe { slice::from_raw_parts_mut(buffer.cast::<MaybeUninit<u8>>(), size) };
    let mut filled = 0;
    let mut sink = |bytes: &[u8]| {
        let room = buffer.get_mut(filled..).unwrap_or_default();
        let count = room.len().min(bytes.len());
        if let (Some(room), Some(bytes)) = (room.get_mut(..count), bytes.get(..count)) {
            room.write_copy_of_slice(bytes);
        }
        filled += count;
        count
    };
    let peek = flags & net::receive::PEEK != 0;
    let received = stack.receive(SocketId::from_raw(socket), peek, &mut sink);
    returned(received.map(|(count, from)| {
        // SAFETY: see above.
        unsafe { write(place, from.map_or(Endpoint::default(), to_kernel)) };
        count as u64
    }))
}

unsafe extern "C" fn shutdown(stack: *mut c_void, socket: u64, how: i32) -> Number {
    // SAFETY: see above.
    let stack = unsafe { of(stack) };
    done(half(how).and_then(|half| stack.shutdown(SocketId::from_raw(socket), half)))
}

unsafe extern "C" fn local(stack: *mut c_void, socket: u64, place: *mut Endpoint) -> Number {
    // SAFETY: see above.
    let address = unsafe { of(stack) }.local(SocketId::from_raw(socket));
    // SAFETY: see above.
    done(address.map(|address| unsafe { write(place, to_kernel(address)) }))
}

unsafe extern "C" fn remote(stack: *mut c_void, socket: u64, place: *mut Endpoint) -> Number {
    // SAFETY: see above.
    let address = unsafe { of(stack) }.remote(SocketId::from_raw(socket));
    // SAFETY: see above.
    done(address.map(|address| unsafe { write(place, to_kernel(address)) }))
}

unsafe extern "C" fn set_option(stack: *mut c_void, socket: u64, option: *const SocketOption) -> Number {
    // SAFETY: see above.
    let stack = unsafe { of(stack) };
    // SAFETY: see above.
    let option = unsafe { *option };
    let set = |option| stack.set_option(SocketId::from_raw(socket), option);
    done(options::from_kernel(&option).and_then(set))
}

unsafe extern "C" fn option(stack: *mut c_void, socket: u64, option: *mut SocketOption) -> Number {
    // SAFETY: see above.
    let stack = unsafe { of(stack) };
    // SAFETY: see above.
    let option = unsafe { &mut *option };
    let read = |name| stack.option(SocketId::from_raw(socket), name);
    done(options::name(option.name).and_then(read).map(|value| option.value = options::value(value)))
}

unsafe extern "C" fn readiness(stack: *mut c_void, socket: u64) -> u32 {
    // SAFETY: see above.
    let readiness = unsafe { of(stack) }.readiness(SocketId::from_raw(socket));
    let bit = |is_so: bool, bit: u32| if is_so { bit } else { 0 };
    bit(readiness.read, ready::READ)
        | bit(readiness.write, ready::WRITE)
        | bit(readiness.read_hang_up, ready::READ_HANG_UP)
        | bit(readiness.hang_up, ready::HANG_UP)
        | bit(readiness.error, ready::ERROR)
}

unsafe extern "C" fn resolve(
    stack: *mut c_void,
    name: *const u8,
    size: usize,
    family: u32,
    cookie: usize,
) -> Number {
    // SAFETY: see above.
    let stack = unsafe { of(stack) };
    // SAFETY: see above; the kernel's slices are never null.
    let name = unsafe { slice::from_raw_parts(name, size) };
    let families = match u16::try_from(family) {
        Ok(V4) => Families::V4,
        Ok(V6) => Families::V6,
        _ => Families::Both,
    };
    let name = str::from_utf8(name).map_err(|_| Errno::EINVAL);
    let asked = name.and_then(|name| stack.resolve(name, families, cookie));
    returned(asked.map(QueryId::into_raw))
}

unsafe extern "C" fn resolved(
    stack: *mut c_void,
    question: u64,
    places: *mut Endpoint,
    room: usize,
) -> Number {
    // SAFETY: see above.
    let stack = unsafe { of(stack) };
    // SAFETY: see above; the kernel's slices are never null.
    let places = unsafe { slice::from_raw_parts_mut(places, room) };
    let answer = stack.resolved(QueryId::from_raw(question)).map_err(|error| match error {
        ResolveError::Pending => Errno::EAGAIN,
        ResolveError::NoName => Errno::ENOENT,
        ResolveError::Again => Errno::ETIMEDOUT,
        ResolveError::NoServer => Errno::ENETUNREACH,
        ResolveError::Memory => Errno::ENOMEM,
        ResolveError::Unknown => Errno::EINVAL,
    });
    returned(answer.map(|addresses| {
        for (place, address) in places.iter_mut().zip(&addresses) {
            *place = (*address).into();
        }
        addresses.len() as u64
    }))
}
