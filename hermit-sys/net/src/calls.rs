//! Table of the stack's functions that the kernel calls.
//!
//! The functions have C types: numbers and raw pointers. The macro `calls` converts the pointers to
//! references, with the functions of [`arguments`]. The body of each function converts addresses and socket
//! numbers, calls the method of the stack with the same meaning, and returns its result as a number or
//! `-errno`. The kernel holds the lock around the stack during each call.
#![expect(unsafe_code, reason = "the kernel passes raw pointers")]

use core::ffi::c_void;
use core::str;

use hermit_interface::net::{
    self, CallResult, Calls, DATAGRAM, Endpoint, NameConfig, OptionName, STREAM, SocketOption, V4,
};
use hermit_interface::{Errno, Readiness};
use hermit_net_stack::{Family, Kind, Shutdown, SocketId, with_scope};

use crate::addresses::{from_kernel, to_kernel};
use crate::arguments::{self, Call};

/// Table of all functions.
pub(crate) const CALLS: Calls = Calls {
    advance,
    poll,
    settle,
    is_configured,
    socket,
    finish,
    close_all,
    is_delivered,
    kept_memory,
    reclaim,
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
    known_addresses,
    name_config,
};

/// Converts a `SHUT_` number to the halves of a connection.
fn shutdown_of(how: i32) -> Result<Shutdown, Errno> {
    match how {
        hermit_abi::SHUT_RD => Ok(Shutdown::Read),
        hermit_abi::SHUT_WR => Ok(Shutdown::Write),
        hermit_abi::SHUT_RDWR => Ok(Shutdown::Both),
        _ => Err(Errno::EINVAL),
    }
}

/// Returns a call's result as a number, or `-errno`.
fn number(result: Result<u64, Errno>) -> CallResult {
    result.map_or_else(
        |error| -CallResult::from(error.number()),
        |number| CallResult::try_from(number).unwrap_or(CallResult::MAX),
    )
}

/// Returns 0 for success, or `-errno`.
fn status(result: Result<(), Errno>) -> CallResult {
    number(result.map(|()| 0))
}

/// Defines functions of the table. All take the stack first. The `where` clause names a function of
/// [`arguments`] for each pointer. The contract of [`Calls`] must fulfil the requirement of this function.
macro_rules! calls {
    ($(fn $name:ident($stack:ident $(, $arg:ident: $type:ty)*) $(-> $result:ty)?
        $(where $($value:ident: $function:ident($($part:ident),+)),+)? $state:block)*) => {$(
        unsafe extern "C" fn $name(stack: *mut c_void $(, $arg: $type)*) $(-> $result)? {
            let scope = ();
            let call = Call::new(&scope);
            // SAFETY: the kernel is the only caller of the table. It passes the stack that `hermit_net_start`
            // has returned to it, and calls with the lock around the stack held, as the contract of `Calls`
            // requires.
            let $stack = unsafe { arguments::stack(call, stack) };
            $($(
                // SAFETY: the kernel is the only caller of the table, and the contract of `Calls` requires of
                // it what the function requires of these arguments.
                let $value = unsafe { arguments::$function(call, $($part),+) };
            )+)?
            $state
        }
    )*};
}

calls! {
    fn advance(stack, now: u64) {
        stack.advance(now);
    }

    fn poll(stack, now: u64) -> u64 {
        stack.poll(now).unwrap_or(u64::MAX)
    }

    fn settle(stack, now: u64) -> u64 {
        stack.settle(now).unwrap_or(u64::MAX)
    }

    fn is_configured(stack) -> bool {
        stack.is_configured()
    }

    fn socket(stack, family: u32, kind: u32, waker_key: usize) -> CallResult {
        let family = if family == u32::from(V4) { Family::V4 } else { Family::V6 };
        let kind = match kind {
            STREAM => Kind::Stream,
            DATAGRAM => Kind::Datagram,
            _ => return status(Err(Errno::ESOCKTNOSUPPORT)),
        };
        number(stack.socket(family, kind, waker_key).map(SocketId::into_raw))
    }

    fn close_all(stack) {
        stack.close_all();
    }

    fn is_delivered(stack) -> bool {
        stack.is_delivered()
    }

    fn kept_memory(stack) -> usize {
        stack.kept_memory()
    }

    fn reclaim(stack) {
        stack.reclaim();
    }

    fn finish(stack, socket: u64) -> CallResult {
        status(stack.finish(SocketId::from_raw(socket)))
    }

    fn close(stack, socket: u64, at_once: bool) {
        let id = SocketId::from_raw(socket);
        let closed = if at_once { stack.close_now(id) } else { stack.close(id) };
        // Fails only for a socket that does not exist, and the kernel closes each of its sockets once.
        let _: Result<(), Errno> = closed;
    }

    fn bind(stack, socket: u64, address: *const Endpoint) -> CallResult
    where address: value(address) {
        status(from_kernel(address).and_then(|address| stack.bind(SocketId::from_raw(socket), address)))
    }

    fn listen(stack, socket: u64, backlog: i32) -> CallResult {
        status(stack.listen(SocketId::from_raw(socket), backlog))
    }

    fn accept(stack, socket: u64, waker_key: usize, peer: *mut Endpoint) -> CallResult
    where peer: out(peer) {
        let accepted = stack.accept(SocketId::from_raw(socket), waker_key);
        number(accepted.map(|(accepted, address)| {
            peer.write(to_kernel(address));
            accepted.into_raw()
        }))
    }

    fn connect(stack, socket: u64, address: *const Endpoint) -> CallResult
    where address: value(address) {
        let id = SocketId::from_raw(socket);
        if address.family == 0 {
            return status(stack.disconnect(id));
        }
        status(from_kernel(address).and_then(|address| stack.connect(id, address)))
    }

    fn send(stack, socket: u64, bytes: *const u8, size: usize, to: *const Endpoint) -> CallResult
    where bytes: slice(bytes, size), to: optional(to) {
        let to = to.map(from_kernel).transpose();
        let sent = to.and_then(|to| stack.send(SocketId::from_raw(socket), bytes, to));
        number(sent.map(|count| count as u64))
    }

    fn receive(
        stack, socket: u64, buffer: *mut u8, size: usize, flags: u32, sender: *mut Endpoint
    ) -> CallResult
    where buffer: buffer(buffer, size), sender: out(sender) {
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
        number(received.map(|(count, from)| {
            sender.write(from.map_or(Endpoint::default(), to_kernel));
            count as u64
        }))
    }

    fn shutdown(stack, socket: u64, how: i32) -> CallResult {
        status(shutdown_of(how).and_then(|how| stack.shutdown(SocketId::from_raw(socket), how)))
    }

    fn local(stack, socket: u64, address: *mut Endpoint) -> CallResult
    where address: out(address) {
        status(stack.local(SocketId::from_raw(socket)).map(|local| address.write(to_kernel(local))))
    }

    fn remote(stack, socket: u64, address: *mut Endpoint) -> CallResult
    where address: out(address) {
        status(stack.remote(SocketId::from_raw(socket)).map(|remote| address.write(to_kernel(remote))))
    }

    fn set_option(stack, socket: u64, option: *const SocketOption) -> CallResult
    where option: value(option) {
        status(stack.set_option(SocketId::from_raw(socket), *option))
    }

    fn option(stack, socket: u64, option: *mut SocketOption) -> CallResult
    where option: value_mut(option) {
        let name = OptionName::from_number(option.name).ok_or(Errno::ENOPROTOOPT);
        let value = name.and_then(|name| stack.option(SocketId::from_raw(socket), name));
        status(value.map(|value| option.value = value))
    }

    fn readiness(stack, socket: u64) -> u32 {
        let hermit_net_stack::Readiness { read, write, read_hang_up, hang_up, error } =
            stack.readiness(SocketId::from_raw(socket));
        Readiness { read, write, read_hang_up, hang_up, error }.to_bits()
    }

    fn known_addresses(stack, name: *const u8, size: usize, addresses: *mut Endpoint, count: usize) -> CallResult
    where name: slice(name, size), addresses: slice_mut(addresses, count) {
        let found = str::from_utf8(name).ok().and_then(|name| stack.known_addresses(name));
        number(found.ok_or(Errno::ENOENT).map(|found| {
            let written = addresses.iter_mut().zip(found).map(|(slot, address)| *slot = to_kernel(with_scope(address)));
            written.count() as u64
        }))
    }

    fn name_config(stack, config: *mut NameConfig)
    where config: out(config) {
        let mut found = NameConfig::default();
        for (slot, &server) in found.servers.iter_mut().zip(stack.nameservers()) {
            *slot = server.into();
        }
        for (slot, &byte) in found.search.iter_mut().zip(stack.search()) {
            *slot = byte;
            found.search_len += 1;
        }
        config.write(found);
    }
}
