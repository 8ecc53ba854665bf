//! Tests of procfs: its tree, and the texts that programs parse.

use super::{Content, Facts, Mapping, MappingKind, NODES, ProcFs};
use crate::interface::{DescriptorTarget, MountInfo};
use crate::testing::{TestSystem, run, vfs};
use crate::vfs::{OpenedPath, Symlinks, Vfs};
use alloc::sync::Arc;
use core::fmt;
use core::mem::MaybeUninit;
use core::ops::ControlFlow;
use core::task::{Context, Poll, Waker};
use hermit_abi::{O_DIRECTORY, O_RDONLY, O_WRONLY, SEEK_END, SEEK_SET};
use hermit_interface::Errno;
use hermit_io::{Object, ReadBuffer};
use std::string::String;
use std::vec::Vec;

#[derive(Debug, Default)]
struct TestFacts {
    /// Why the mounts are not known.
    error: Option<Errno>,
}

impl Facts for TestFacts {
    fn cpus(&self) -> u32 {
        2
    }

    fn memory(&self) -> (u64, u64) {
        (64 << 20, 40 << 20)
    }

    fn available_memory(&self) -> u64 {
        41 << 20
    }

    fn uptime_ns(&self) -> u64 {
        12_345_678_901
    }

    fn arguments(&self, add: &mut dyn FnMut(&[u8])) {
        [b"/bin/program".as_slice(), b"one", b""].into_iter().for_each(add);
    }

    fn hostname(&self, add: &mut dyn FnMut(&str) -> fmt::Result) -> fmt::Result {
        add("web-1")
    }

    fn environment(&self, add: &mut dyn FnMut(&[u8])) {
        add(b"A=b");
    }

    /// The second CPU was idle for all but a second.
    fn idle_ns(&self, cpu: u32) -> u64 {
        if cpu == 0 { 0 } else { 11_345_678_901 }
    }

    fn threads(&self) -> usize {
        3
    }

    fn mounts(&self) -> Result<Vec<MountInfo>, Errno> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let info =
            |type_name, path: &[u8], is_read_only| MountInfo { type_name, path: path.to_vec(), is_read_only };
        Ok(Vec::from([info("tmpfs", b"/", false), info("proc", b"/a b\\", true)]))
    }

    fn current_directory(&self) -> Result<Vec<u8>, Errno> {
        Ok(b"/proc".to_vec())
    }

    fn next_descriptor(&self, from: usize) -> Option<usize> {
        [0, 1, 12].into_iter().find(|number| *number >= from)
    }

    fn is_open(&self, number: usize) -> bool {
        [0, 1, 12].contains(&number)
    }

    fn descriptor(&self, number: usize) -> Result<DescriptorTarget, Errno> {
        Ok(match number {
            0 => DescriptorTarget::Path(b"/".to_vec()),
            _ => DescriptorTarget::Numbered("pipe", 7),
        })
    }

    fn mappings(&self) -> Result<Vec<Mapping>, Errno> {
        Ok(Vec::from([
            Mapping { start: 0x1000, end: 0x3000, access: "r-xp", kind: MappingKind::Image },
            Mapping {
                start: 0x7f00_0000_0000,
                end: 0x7f00_0000_1000,
                access: "rw-p",
                kind: MappingKind::Stack,
            },
        ]))
    }
}

type TestProcFs = ProcFs<TestSystem, TestFacts>;

/// The text of a file in a directory, by index.
fn text(parent: usize, name: &str) -> String {
    let node = NODES.iter().find(|node| node.parent == parent && node.name == name).unwrap();
    let (Content::Text(write) | Content::Link(write)) = node.content else { panic!("a directory") };
    String::from_utf8(TestProcFs::new(TestFacts::default()).write(write).unwrap()).unwrap()
}

#[test]
fn error_of_a_fact_is_that_of_the_call() {
    let procfs: TestProcFs = ProcFs::new(TestFacts { error: Some(Errno::EIO) });
    assert_eq!(procfs.write(super::text::mounts), Err(Errno::EIO));
    assert!(procfs.write(super::text::maps).is_ok());
}

fn mounted() -> Vfs<TestSystem> {
    let (_, vfs) = vfs(1 << 20);
    run(vfs.create_directory(b"/proc", 0o555)).unwrap();
    run(vfs.mount(Arc::new(TestProcFs::new(TestFacts::default())), b"/proc", false)).unwrap();
    vfs
}

fn open(vfs: &Vfs<TestSystem>, path: &[u8]) -> Arc<dyn Object> {
    match run(vfs.open(path, O_RDONLY, 0)) {
        Ok(OpenedPath::Object(object)) => object,
        other => panic!("{other:?}"),
    }
}

/// Reads up to `size` bytes; returns their number.
fn read(object: &Arc<dyn Object>, size: usize) -> usize {
    let mut memory = [MaybeUninit::uninit(); 100];
    let mut buffer = ReadBuffer::new(&mut memory[..size]);
    let result = object.poll_read(&mut Context::from_waker(Waker::noop()), &mut buffer);
    assert_eq!(result, Poll::Ready(Ok(())));
    buffer.len()
}

#[test]
fn texts_have_the_formats_of_linux() {
    assert_eq!(text(0, "uptime"), "12.34 11.34\n");
    let meminfo = "MemTotal:          65536 kB\nMemFree:           40960 kB\nMemAvailable:      41984 kB\n";
    assert!(text(0, "meminfo").starts_with(meminfo));
    assert_eq!(text(0, "cpuinfo").matches("processor\t: ").count(), 2);
    let stat =
        "cpu  1334 0 0 1134 0 0 0 0 0 0\ncpu0 1234 0 0 0 0 0 0 0 0 0\ncpu1 100 0 0 1134 0 0 0 0 0 0\nbtime ";
    assert!(text(0, "stat").starts_with(stat));
    assert_eq!(text(0, "loadavg"), "0.00 0.00 0.00 1/3 1\n");
    assert_eq!(text(super::nodes::SYS_KERNEL, "hostname"), "web-1\n");
    assert_eq!(text(1, "cmdline"), "/bin/program\0one\0\0");
    assert_eq!(text(1, "environ"), "A=b\0");
    assert_eq!(text(1, "comm"), "program\n");
    assert_eq!(text(1, "mounts"), "tmpfs / tmpfs rw 0 0\nproc /a\\040b\\134 proc ro 0 0\n");
    let maps = "00001000-00003000 r-xp 00000000 00:00 0 /program\n\
                7f0000000000-7f0000001000 rw-p 00000000 00:00 0 [stack]\n";
    assert_eq!(text(1, "maps"), maps);
    assert_eq!(text(1, "statm"), "6144 6144 0 0 0 0 0\n");
    // As many fields as Linux has since 3.5.
    let stat = text(1, "stat");
    let fields: Vec<&str> = stat.split(' ').collect();
    assert_eq!((fields.len(), fields[13], fields[19]), (52, "1334", "3"));
    assert!(text(1, "status").ends_with("\nThreads:\t3\n"));
    assert!(text(1, "status").contains("\nVmRSS:\t   24576 kB\n"));
}

#[test]
fn links_lead_to_the_process() {
    let vfs = mounted();
    assert_eq!(run(vfs.read_link(b"/proc/self")).unwrap(), b"1");
    assert_eq!(run(vfs.read_link(b"/proc/self/exe")).unwrap(), b"/program");
    assert_eq!(run(vfs.metadata(b"/proc/mounts", Symlinks::Follow)).unwrap().attr.mode, 0o10_0444);
    assert_eq!(run(vfs.real_path(b"/proc/self/../self/stat")).unwrap(), b"/proc/1/stat");
    assert_eq!(run(vfs.read_link(b"/proc/self/cwd")).unwrap(), b"/proc");
    assert_eq!(run(vfs.real_path(b"/proc/self/cwd/self/fd/0/proc")).unwrap(), b"/proc");
    assert_eq!(run(vfs.read_link(b"/proc/self/fd/12")).unwrap(), b"pipe:[7]");
    for absent in ["2", "13", "012", "+1", "x", "", "4294967296", "18446744069414584321"] {
        let path = ["/proc/self/fd/", absent].concat();
        assert!(run(vfs.read_link(path.as_bytes())).is_err(), "{path}");
    }
    assert_eq!(run(vfs.metadata(b"/proc/2", Symlinks::Follow)).unwrap_err(), Errno::ENOENT);
    assert_eq!(run(vfs.metadata(b"/proc/stat/x", Symlinks::Follow)).unwrap_err(), Errno::ENOTDIR);
}

#[test]
fn open_text_is_read_in_parts_and_again() {
    let vfs = mounted();
    let file = open(&vfs, b"/proc/uptime");
    assert_eq!((read(&file, 4), read(&file, 100), read(&file, 100)), (4, 8, 0));
    assert_eq!((file.seek(6, SEEK_SET), read(&file, 100)), (Ok(6), 6));
    assert_eq!((file.seek(1 << 40, SEEK_SET), read(&file, 100)), (Ok(1 << 40), 0));
    assert_eq!(file.seek(0, SEEK_END), Err(Errno::EINVAL));
}

#[test]
fn directories_list_their_files_and_nothing_changes() {
    let vfs = mounted();
    let names = |path: &[u8]| {
        let Ok(OpenedPath::File(directory)) = run(vfs.open(path, O_DIRECTORY, 0)) else {
            panic!("no directory")
        };
        let mut names = Vec::new();
        run(directory.read_directory(|entry| {
            names.push(String::from_utf8(entry.name.to_vec()).unwrap());
            ControlFlow::Continue(())
        }))
        .unwrap();
        names
    };
    let directories: [&[u8]; 4] = [b"/proc", b"/proc/1", b"/proc/sys", b"/proc/sys/kernel"];
    assert_eq!(directories.map(|path| names(path).len()).iter().sum::<usize>(), NODES.len() - 1);
    assert_eq!(
        (names(b"/proc/sys"), names(b"/proc/sys/kernel")),
        (["kernel".into()].into(), ["hostname".into()].into())
    );
    assert_eq!(names(b"/proc/self/fd"), ["0", "1", "12"]);
    assert!(names(b"/proc").contains(&"1".into()) && names(b"/proc/self").contains(&"exe".into()));
    assert_eq!(run(vfs.open(b"/proc/stat", O_WRONLY, 0)).unwrap_err(), Errno::EACCES);
    assert_eq!(run(vfs.remove_file(b"/proc/stat")), Err(Errno::EROFS));
    assert_eq!(run(vfs.create_directory(b"/proc/x", 0o755)), Err(Errno::EROFS));
}
