//! The kernel's facts for the files in `/proc`.

use alloc::vec::Vec;
use core::{fmt, iter, ptr};

use hermit_abi::{S_IFBLK, S_IFCHR, S_IFIFO, S_IFMT, S_IFSOCK};
use hermit_fs::{DescriptorTarget, Facts, Mapping, MappingKind, MountInfo};
use hermit_hal::memory::{self, Access, ImagePart, stack};
use hermit_hal::{clock, cpus};
use hermit_interface::Errno;
use hermit_interface::address::AddressRange;
use hermit_interface::command_line::hostname;
use hermit_io::Object;

use crate::descriptors::{self, Handle};
use crate::files::system::mounted;
use crate::program::DEFAULT_NAME;
use crate::threads::wait::complete;
use crate::threads::{cpu, thread};
use crate::{command_line, net};

/// Host name of a machine whose command line has none.
const DEFAULT_HOSTNAME: &str = "localhost";

/// Facts about this kernel, for procfs.
#[derive(Debug)]
pub(crate) struct KernelFacts;

impl Facts for KernelFacts {
    fn cpus(&self) -> u32 {
        cpus::count()
    }

    fn idle_ns(&self, cpu: u32) -> u64 {
        cpu::idle_ns(cpu)
    }

    fn threads(&self) -> usize {
        thread::count_alive()
    }

    fn memory(&self) -> (u64, u64) {
        (memory::size(), memory::available())
    }

    fn available_memory(&self) -> u64 {
        // `kept_memory` may wait for the network, so it comes first. The other values are then read at the
        // same moment.
        let kept = net::kept_memory() as u64;
        (kept + memory::heap_available() + memory::available()).min(memory::size())
    }

    fn uptime_ns(&self) -> u64 {
        clock::monotonic()
    }

    fn arguments(&self, add: &mut dyn FnMut(&[u8])) {
        let line = command_line::parsed();
        add(line.argv0.as_deref().unwrap_or(DEFAULT_NAME));
        line.args.iter().for_each(|argument| add(argument));
    }

    fn hostname(&self, add: &mut dyn FnMut(&str) -> fmt::Result) -> fmt::Result {
        add(hostname(command_line::text()).as_deref().unwrap_or(DEFAULT_HOSTNAME))
    }

    fn environment(&self, add: &mut dyn FnMut(&[u8])) {
        command_line::parsed().env.iter().for_each(|variable| add(variable));
    }

    fn mounts(&self) -> Result<Vec<MountInfo>, Errno> {
        complete(mounted()?.mounts())
    }

    fn current_directory(&self) -> Result<Vec<u8>, Errno> {
        complete(mounted()?.current_path())
    }

    fn next_descriptor(&self, from: usize) -> Option<usize> {
        descriptors::next_open(from)
    }

    fn is_open(&self, number: usize) -> bool {
        i32::try_from(number).is_ok_and(|descriptor| descriptors::handle(descriptor).is_ok())
    }

    fn descriptor(&self, number: usize) -> Result<DescriptorTarget, Errno> {
        let descriptor = i32::try_from(number).map_err(|_| Errno::ENOENT)?;
        match descriptors::handle(descriptor).map_err(|_| Errno::ENOENT)? {
            Handle::File(file) => file.file().describe(),
            Handle::Object(object) => Ok(DescriptorTarget::Numbered(type_name(&*object), number as u64)),
        }
    }

    fn mappings(&self) -> Result<Vec<Mapping>, Errno> {
        let heap = memory::direct_mapping();
        let local = 0_u8;
        let stack = stack::containing(ptr::from_ref(&local).addr() as u64);
        let others = [(Some(heap), MappingKind::Heap), (stack, MappingKind::Stack)];
        let others = others.into_iter().filter_map(|(range, kind)| {
            let AddressRange { start, end } = range?;
            Some(Mapping { start, end, access: access_text(Access::Write), kind })
        });
        let mut mappings = Vec::new();
        for mapping in image_parts().chain(others) {
            mappings.try_reserve(1)?;
            mappings.push(mapping);
        }
        mappings.sort_unstable_by_key(|mapping| mapping.start);
        Ok(mappings)
    }
}

/// Returns the parts of the image.
fn image_parts() -> impl Iterator<Item = Mapping> {
    let first = memory::image_part(memory::image().start);
    let parts = iter::successors(first, |part| memory::image_part(part.end));
    parts.filter(|part| part.access != Access::None).map(|part| {
        let ImagePart { start, end, access } = part;
        Mapping { start, end, access: access_text(access), kind: MappingKind::Image }
    })
}

/// Access as in `/proc/self/maps`.
const fn access_text(access: Access) -> &'static str {
    match access {
        Access::None => "---p",
        Access::Read => "r--p",
        Access::Write => "rw-p",
        Access::Execute => "r-xp",
        Access::WriteExecute => "rwxp",
    }
}

/// Returns the type of an object, in the words that Linux uses for objects without a path.
fn type_name(object: &dyn Object) -> &'static str {
    match object.stat().map(|stat| stat.mode & S_IFMT) {
        Ok(S_IFCHR) => "char",
        Ok(S_IFBLK) => "block",
        Ok(S_IFIFO) => "pipe",
        Ok(S_IFSOCK) => "socket",
        _ => "anon_inode",
    }
}
