//! What the files in `/proc` say.

use alloc::string::String;

use hermit_fs::Facts;
use hermit_hal::{clock, cpus, memory};
use hermit_interface::command_line::MountOptions;

use crate::command_line;
use crate::program::DEFAULT_NAME;

/// What this kernel knows.
#[derive(Debug)]
pub(crate) struct KernelFacts;

/// Path and type of each file system that is always mounted.
const MOUNTS: [(&str, &str); 3] = [("/", "tmpfs"), ("/dev", "devtmpfs"), ("/proc", "proc")];

impl Facts for KernelFacts {
    fn cpus(&self) -> u32 {
        cpus::count()
    }

    fn memory(&self) -> (u64, u64) {
        (memory::size(), memory::available())
    }

    fn uptime_ns(&self) -> u64 {
        clock::monotonic()
    }

    fn arguments(&self, add: &mut dyn FnMut(&[u8])) {
        let line = command_line::parsed();
        add(line.argv0.as_deref().unwrap_or(DEFAULT_NAME));
        line.args.iter().for_each(|argument| add(argument));
    }

    fn environment(&self, add: &mut dyn FnMut(&[u8])) {
        command_line::parsed().env.iter().for_each(|variable| add(variable));
    }

    fn mounts(&self, add: &mut dyn FnMut(&str, &str, bool)) {
        MOUNTS.into_iter().for_each(|(path, file_system)| add(path, file_system, false));
        for option in MountOptions::parse(command_line::text()).mounts {
            add(&String::from_utf8_lossy(&option.path), "virtiofs", option.is_read_only);
        }
    }
}
