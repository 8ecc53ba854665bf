//! Where the kernel has the stack begin.
#![expect(unsafe_code, reason = "the kernel passes pointers, and knows a symbol")]

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::{ptr, slice};

use hermit_interface::command_line::{Ip, NetworkOptions};
use hermit_interface::net::{Network, Services, Settings, Start};
use hermit_net_stack::{Cidr, Configuration, Stack};

use crate::calls::CALLS;
use crate::kernel::{Kernel, KernelDevice};

/// The stack of a machine.
pub(crate) type MachineStack = Stack<KernelDevice, Kernel>;

const _: Start = hermit_net_start;

/// Has the stack begin: see [`Start`].
///
/// # Safety
///
/// Both are valid for reads for ever.
#[unsafe(no_mangle)]
unsafe extern "C" fn hermit_net_start(
    services: *const Services,
    settings: *const Settings,
) -> *const Network {
    // SAFETY: the caller's promise.
    let (Some(services), Some(settings)) = (unsafe { services.as_ref() }, unsafe { settings.as_ref() })
    else {
        return ptr::null();
    };
    // SAFETY: the kernel passes text that stays for ever.
    let line = unsafe { slice::from_raw_parts(settings.command_line, settings.command_line_size) };
    let (options, kernel) = (NetworkOptions::parse(line), Kernel(services));
    for word in &options.malformed {
        let word = String::from_utf8_lossy(word);
        kernel.warn(&format!("`{word}` on the command line makes no sense and does not count"));
    }
    let configuration = configuration(&options, settings.buffers);
    let stack = MachineStack::new(KernelDevice::new(services), kernel, configuration, settings.now);
    for address in stack.status().ignored {
        let text =
            format!("{address} does not count: there are too many such addresses, or nobody can have it");
        kernel.warn(&text);
    }
    let stack = Box::into_raw(Box::new(stack)).cast();
    Box::leak(Box::new(Network { stack, calls: CALLS }))
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
        hostname: line.hostname.clone(),
        buffers,
    }
}
