//! Entry point: the kernel calls it to create the stack.
#![expect(unsafe_code, reason = "the kernel passes raw pointers, and finds the function by its symbol")]

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::{ptr, slice};

use hermit_interface::command_line::{self, Ip, NetworkOptions};
use hermit_interface::net::{Services, StackConfig, StackInstance, Start};
use hermit_net_stack::{Cidr, Configuration, HostAddress};

use crate::calls::CALLS;
use crate::kernel::{Kernel, KernelDevice, NetworkStack};

const _: Start = hermit_net_start;

/// Creates the stack ([`Start`]).
///
/// # Safety
///
/// Each pointer is null, or valid forever for reads of a value that does not change.
#[unsafe(no_mangle)]
unsafe extern "C" fn hermit_net_start(
    services: *const Services,
    settings: *const StackConfig,
) -> *const StackInstance {
    // SAFETY: each pointer is null, or valid forever, by the contract of this function.
    let (Some(services), Some(settings)) = (unsafe { services.as_ref() }, unsafe { settings.as_ref() })
    else {
        return ptr::null();
    };
    // SAFETY: the contract of `StackConfig`: pointer and length are those of a slice that is valid and
    // unchanged forever.
    let line = unsafe { slice::from_raw_parts(settings.command_line, settings.command_line_size) };
    let (options, kernel) = (NetworkOptions::parse(line), Kernel(services));
    for word in &options.malformed {
        let word = String::from_utf8_lossy(word);
        kernel.warn(&format!("`{word}` on the command line is invalid and ignored"));
    }
    let configuration = configuration(&options, settings.buffers);
    let stack = NetworkStack::new(KernelDevice::new(services), kernel, configuration, settings.now);
    for address in stack.status().ignored {
        let text =
            format!("{address} is ignored: it cannot be a host's address, or there are too many of its kind");
        kernel.warn(&text);
    }
    let stack = Box::into_raw(Box::new(stack)).cast();
    Box::leak(Box::new(StackInstance { stack, calls: CALLS }))
}

fn configuration(line: &NetworkOptions, buffers: usize) -> Configuration {
    let addresses: Vec<_> = line
        .ip
        .iter()
        .filter_map(|ip| match ip {
            Ip::Dhcp => None,
            Ip::Address(cidr) => Some(Cidr { address: cidr.address, prefix: cidr.prefix }),
        })
        .collect();
    Configuration {
        addresses,
        gateways: line.gateways.clone(),
        nameservers: line.nameservers.clone(),
        search: line.search.clone(),
        hostname: line.hostname.clone(),
        host: line.host.map(|host| match host {
            command_line::HostAddress::Gateway => HostAddress::Gateway,
            command_line::HostAddress::Address(address) => HostAddress::Address(address),
        }),
        buffers,
        congestion: line.congestion.unwrap_or_default(),
        // The kernel serialises all calls.
        shards: 1,
    }
}
