//! Fuzz target of the GDB server: a session with a model of a VM. Deterministic, without threads and guest.

pub(super) mod model;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use gdbstub::conn::Connection;

use self::model::{ModelVcpus, PAGES};
use super::debug_target::DebugTarget;
use super::session::{self, SessionError, SessionInput};
use crate::memory::Memory;
use crate::vcpu::shutdown::VmHandle;

/// Size of a page in bytes.
const PAGE: usize = 0x1000;

/// A session of gdb with a VM of two vCPUs. Each line of `data` is a packet without `$` and checksum. A line
/// that starts with `$`, `+`, `-` or Ctrl-C is sent unchanged.
///
/// # Panics
///
/// A packet other than a write changes the memory that gdb reads, or breakpoints remain in memory after
/// detaching.
pub fn packets(data: &[u8]) {
    let Ok(memory) = "8M".parse().map_err(drop).and_then(|size| Memory::new(size).map_err(drop)) else {
        return;
    };
    let Ok(vm) = VmHandle::new() else { return };
    let vcpus = ModelVcpus::new(memory.guest());
    let mut target = DebugTarget::new(vcpus, Arc::new(vm), memory, model::FIRST_SEGMENT);
    let mut input = Script { lines: data.split(|&byte| byte == b'\n').collect(), ..Script::default() };
    // The result does not matter. The session ends at the last line at the latest.
    let _: Result<session::SessionEnd, SessionError> = session::serve(Replies, &mut input, &mut target);
    target.pause();
    let shown = view(&target);
    target.detach();
    assert!(target.is_running(), "the guest continues without gdb");
    target.pause();
    assert!(shown == raw_view(&target), "a breakpoint is left in memory");
}

/// Returns the memory as gdb reads it.
fn view(target: &DebugTarget<ModelVcpus>) -> Vec<u8> {
    read_pages(|address, page| target.read(0, address, page))
}

/// Returns the memory as the guest reads it.
fn raw_view(target: &DebugTarget<ModelVcpus>) -> Vec<u8> {
    read_pages(|address, page| target.read_raw(0, address, page))
}

fn read_pages(read: impl Fn(u64, &mut [u8]) -> usize) -> Vec<u8> {
    let mut bytes = vec![0; PAGE * PAGES.len()];
    for (page, (address, _)) in bytes.chunks_mut(PAGE).zip(PAGES) {
        assert_eq!(read(address, page), PAGE, "{address:#x}");
    }
    bytes
}

/// Input of the session: its lines, one at a time. A line is sent after the previous line has been handled.
#[derive(Debug, Default)]
struct Script<'a> {
    lines: VecDeque<&'a [u8]>,
    bytes: VecDeque<u8>,
    /// Memory as gdb reads it; `None` if the last line may have changed it.
    shown: Option<Vec<u8>>,
}

impl SessionInput<ModelVcpus> for Script<'_> {
    fn next_byte(&mut self) -> Option<u8> {
        self.bytes.pop_front()
    }

    fn wait(&mut self, target: &DebugTarget<ModelVcpus>) -> Result<(), SessionError> {
        if let Some(shown) = self.shown.take().filter(|_| !target.is_running()) {
            assert!(shown == view(target), "memory changed without a write");
        }
        let line = self.lines.pop_front().ok_or(SessionError::Closed)?;
        match line {
            [b'$' | b'+' | b'-' | 3, ..] => self.bytes.extend(line),
            _ => self.bytes.extend(packet(line)),
        }
        if !target.is_running() && !matches!(line, [b'$' | b'M' | b'X', ..]) {
            self.shown = Some(view(target));
        }
        Ok(())
    }
}

/// Returns a packet of the protocol: `$`, contents, `#`, and the sum of the contents modulo 256.
fn packet(contents: &[u8]) -> Vec<u8> {
    let sum = contents.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
    [b"$", contents, format!("#{sum:02x}").as_bytes()].concat()
}

/// The connection to gdb, whose replies are dropped.
#[derive(Debug)]
struct Replies;

impl Connection for Replies {
    type Error = io::Error;

    fn write(&mut self, _: u8) -> io::Result<()> {
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::packets;
    use proptest::collection::vec;
    use proptest::prelude::*;

    const WORDS: [&str; 11] =
        ["g", "c", "vCont;s:p1.1", "vCont;c", "\u{3}", "Hg2", "?", "qOffsets", "D", "vKill;1", "$x#"];

    /// Generates lines. Most of them are packets with valid numbers.
    fn line() -> impl Strategy<Value = String> {
        let address = prop_oneof![
            (0_u64..0x5000).prop_map(|address| format!("{address:x}")),
            (0_u64..0x3000).prop_map(|below| format!("{:x}", u64::MAX - below)),
        ];
        let access = (address, 0_usize..20).prop_flat_map(|(address, size)| {
            prop_oneof![
                Just(format!("m{address},{size:x}")),
                Just(format!("M{address},{size:x}:{}", "cc".repeat(size))),
                (0..5, any::<bool>()).prop_map(move |(kind, set)| {
                    format!("{}{kind},{address},{:x}", if set { 'Z' } else { 'z' }, size.max(1))
                }),
            ]
        });
        prop_oneof![6 => access, 2 => prop::sample::select(&WORDS[..]).prop_map(str::to_owned), 1 => ".*"]
    }

    proptest! {
        #[test]
        fn session_withstands_arbitrary_packets(lines in vec(line(), 0..40)) {
            packets(lines.join("\n").as_bytes());
        }

        #[test]
        fn session_withstands_arbitrary_bytes(bytes in vec(any::<u8>(), 0..500)) {
            packets(&bytes);
        }
    }
}
