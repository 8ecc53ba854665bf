//! The roles: each thread can do its work, and the process has no access to files and no privileges.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{self, Command};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use hermit_fuse::Opcode;
use hermit_fuse::flags::SetattrValid;
use hermit_fuse::request::SetattrIn;
use hermit_options::mount::CachePolicy;
use hermit_options::open::Opener;
use rustix::fs::{
    CWD, Mode, OFlags, ResolveFlags, Timespec, Timestamps, UTIME_NOW, fchmod, futimens, openat2,
};
use rustix::process::{DumpableBehavior, Resource, dumpable_behavior, getrlimit};
use rustix::thread::{CapabilitySets, capabilities, gettid, no_new_privs};
use uhyve::devices::fuzzing::FilesClient;
use uhyve::sandbox::{Folder, Role, Rules, Sandbox, Threads, close_inherited};
use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};
use vmm_sys_util::eventfd::EventFd;
use vmm_sys_util::signal::{SIGRTMIN, register_signal_handler};
use zerocopy::IntoBytes;

use crate::{calls, probe};

/// Performs one of the actions below in this process.
pub(crate) fn act(action: &str) {
    match action {
        "work" => work(),
        "panic" => in_thread(|| panic!("panic of the test")),
        "abort" => in_thread(|| process::abort()),
        "overflow" => in_thread(|| assert_eq!(overflow(&[0; 512]), 0)),
        "paths" => paths(),
        "folders" => folders(),
        "files" => files(),
        "descriptors" => descriptors(),
        "off" => off(),
        action if action.starts_with("report ") => report(Path::new(&action["report ".len()..])),
        _ => panic!("there is no action `{action}`"),
    }
}

/// Performs an action in a confined thread.
fn in_thread(action: impl FnOnce() + Send + 'static) {
    let mut threads = Threads::new(Sandbox::new(Rules::default())).unwrap();
    threads.spawn("action".to_owned(), Role::Vcpu, action).unwrap();
    let failures = threads.start().unwrap().into_iter().map(thread::JoinHandle::join);
    // The panic of a thread does not end the process.
    assert!(failures.filter(Result::is_err).count() <= 1);
}

#[expect(unconditional_recursion, reason = "the stack is to overflow")]
fn overflow(below: &[u8; 512]) -> usize {
    let more = [below[0].wrapping_add(1); 512];
    overflow(&more) + usize::from(std::hint::black_box(more)[1])
}

/// All roles at once, each with its own work.
fn work() {
    extern "C" fn ignore(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {}
    register_signal_handler(SIGRTMIN(), ignore).unwrap();
    let disk = tempfile::tempfile().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let debugger = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let event = EventFd::new(libc::EFD_CLOEXEC).unwrap();
    let (kick, devices_event) = (event.try_clone().unwrap(), event.try_clone().unwrap());
    let epoll = Epoll::new().unwrap();
    let forward = network();
    let (end, ended) = mpsc::channel::<()>();
    let mut threads = Threads::new(Sandbox::new(Rules::default())).unwrap();
    threads.spawn("disk".to_owned(), Role::Disk, move || serve(&disk, &epoll, &devices_event)).unwrap();
    threads.spawn("devices".to_owned(), Role::Devices, use_runtime).unwrap();
    threads.spawn("network".to_owned(), Role::Network, forward).unwrap();
    threads.spawn("stderr".to_owned(), Role::Output, print()).unwrap();
    threads.spawn("gdb".to_owned(), Role::Gdb, move || debug(&listener, debugger)).unwrap();
    let (ready, thread) = mpsc::channel();
    let vcpu = move || {
        ready.send(gettid()).unwrap();
        use_runtime();
        kick.write(1).unwrap();
        // Blocks until the main thread drops the sender.
        assert!(ended.recv().is_err());
    };
    threads.spawn("vcpu".to_owned(), Role::Vcpu, vcpu).unwrap();
    let threads = threads.start().unwrap();
    use_runtime();
    thread::sleep(Duration::from_millis(1));
    calls::signal(thread.recv().unwrap(), SIGRTMIN());
    drop(end);
    for thread in threads {
        thread.join().unwrap();
    }
}

/// Memory, clocks, output and scheduling, allowed for every role.
fn use_runtime() {
    for size in [100, 10_000, 1 << 20, 64 << 20] {
        let mut memory = vec![vec![1_u8; size]; 2];
        memory[0].resize(size * 2, 2);
        assert_eq!(memory[0][size], 2);
    }
    // Many small allocations, whose memory the allocator returns to the kernel.
    drop((0..10_000).map(|number| vec![1_u8; number % 4096]).collect::<Vec<_>>());
    assert_eq!(HashMap::from([(1, 2)])[&1], 2);
    let earlier = Instant::now();
    assert!(Instant::now() >= earlier);
    println!("output");
    eprintln!("output");
    thread::yield_now();
}

fn serve(mut disk: &File, epoll: &Epoll, event: &EventFd) {
    use_runtime();
    epoll.ctl(ControlOperation::Add, event.as_raw_fd(), EpollEvent::new(EventSet::IN, 0)).unwrap();
    await_event(epoll);
    assert_eq!(event.read().unwrap(), 1);
    disk.write_all_at(b"0123", 4).unwrap();
    disk.seek(SeekFrom::Start(2)).unwrap();
    disk.write_all(b"ab").unwrap();
    let mut bytes = [0; 4];
    disk.read_exact_at(&mut bytes, 2).unwrap();
    assert_eq!(&bytes, b"ab01");
    assert_eq!(disk.read(&mut bytes).unwrap(), 4);
    disk.sync_data().unwrap();
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).unwrap();
}

/// Waits for one event. A stop and continuation of the process interrupts the call (signal(7)).
fn await_event(epoll: &Epoll) {
    loop {
        match epoll.wait(-1, &mut [EpollEvent::default()]) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return assert_eq!(result.unwrap(), 1),
        }
    }
}

/// Work of the network thread of a guest under QEMU.
fn network() -> impl FnOnce() + Send {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let [mut ours, mut theirs] = [ours, theirs].map(|stream| File::from(OwnedFd::from(stream)));
    let epoll = Epoll::new().unwrap();
    move || {
        use_runtime();
        theirs.write_all(b"frame").unwrap();
        epoll.ctl(ControlOperation::Add, ours.as_raw_fd(), EpollEvent::new(EventSet::IN, 0)).unwrap();
        await_event(&epoll);
        let mut frame = [0; 5];
        ours.read_exact(&mut frame).unwrap();
        ours.write_all(&frame).unwrap();
        epoll.ctl(ControlOperation::Delete, ours.as_raw_fd(), EpollEvent::default()).unwrap();
    }
}

/// Work of an output thread.
fn print() -> impl FnOnce() + Send {
    let (kick, epoll) = (EventFd::new(libc::EFD_CLOEXEC).unwrap(), Epoll::new().unwrap());
    let stderr = std::io::stderr().as_fd().try_clone_to_owned().unwrap();
    kick.write(1).unwrap();
    move || {
        use_runtime();
        epoll.ctl(ControlOperation::Add, kick.as_raw_fd(), EpollEvent::new(EventSet::IN, 0)).unwrap();
        await_event(&epoll);
        assert_eq!(kick.read().unwrap(), 1);
        File::from(stderr).write_all(b"error\n").unwrap();
        epoll.ctl(ControlOperation::Delete, kick.as_raw_fd(), EpollEvent::default()).unwrap();
    }
}

fn debug(listener: &TcpListener, mut debugger: TcpStream) {
    use_runtime();
    let (mut stream, _) = listener.accept().unwrap();
    debugger.write_all(b"$").unwrap();
    assert_eq!(stream.peek(&mut [0]).unwrap(), 1);
    let mut byte = [0];
    stream.read_exact(&mut byte).unwrap();
    stream.write_all(&byte).unwrap();
    debugger.read_exact(&mut byte).unwrap();
}

/// Confines the process without filters, so that Landlock and the dropped capabilities are tested.
fn paths() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let parent = rustix::process::getppid().unwrap();
    let file = File::open("/etc/passwd").unwrap();
    Sandbox::new(Rules::default()).confine_process().unwrap();
    let CapabilitySets { effective, permitted, inheritable } = capabilities(None).unwrap();
    assert!((effective | permitted | inheritable).is_empty());
    assert!(no_new_privs().unwrap());
    assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
    assert_eq!(getrlimit(Resource::Core).current, Some(1));
    assert_eq!(rustix::process::test_kill_process(parent), Err(rustix::io::Errno::PERM));
    for path in ["/etc/passwd", "/", "/proc/self/maps", "/dev/kvm", "/dev/null", "/tmp"] {
        denied(File::open(path).map(drop), path);
    }
    denied(fs::write("/tmp/uhyve-sandbox-test", b""), "a new file");
    denied(fs::remove_file("/etc/passwd"), "removal");
    denied(Command::new("/bin/true").status().map(drop), "a program");
    denied(TcpStream::connect(address).map(drop), "connect");
    denied(TcpListener::bind("127.0.0.1:0").map(drop), "bind");
    let mut start = [0; 4];
    file.read_exact_at(&mut start, 0).unwrap();
    let status = fs::read_to_string("/proc/self/status");
    denied(status.map(drop), "status");
}

#[track_caller]
fn denied(result: std::io::Result<()>, what: &str) {
    assert_eq!(result.unwrap_err().kind(), ErrorKind::PermissionDenied, "{what}");
}

fn folders() {
    let [kept, shown, other] = [(); 3].map(|()| tempfile::tempdir().unwrap().keep());
    for folder in [&kept, &shown, &other] {
        fs::write(folder.join("file"), b"text").unwrap();
    }
    fs::copy("/bin/true", kept.join("program")).unwrap();
    let open = |folder: &Path| Arc::new(OwnedFd::from(File::open(folder).unwrap()));
    let folders = vec![
        Folder { descriptor: open(&kept), read_only: false },
        Folder { descriptor: open(&shown), read_only: true },
    ];
    Sandbox::new(Rules { folders, ..Rules::default() }).confine_process().unwrap();
    for folder in [&kept, &shown] {
        assert_eq!(fs::read(folder.join("file")).unwrap(), b"text");
        assert!(fs::read_dir(folder).unwrap().count() > 0);
    }
    denied(fs::read(other.join("file")).map(drop), "another folder");
    denied(fs::write(shown.join("file"), b""), "a file that can only be read");
    denied(fs::write(shown.join("new"), b""), "a new file");
    denied(fs::remove_file(shown.join("file")), "removal");
    denied(Command::new(kept.join("program")).status().map(drop), "a program");
    fs::create_dir(kept.join("new")).unwrap();
    fs::rename(kept.join("file"), kept.join("new/file")).unwrap();
    fs::write(kept.join("new/file"), b"other").unwrap();
    fs::remove_dir_all(kept.join("new")).unwrap();
}

/// Requests of FUSE that are made in a confined thread: opcode, node, body. The first nodes and handles have
/// the number 2.
fn requests() -> Vec<(Opcode, u64, Vec<u8>)> {
    let [none, word, double] = [vec![0; 8], vec![2, 0, 0, 0, 0, 0, 0, 0], vec![0; 16]];
    let sized =
        |offset: u64, size: u32| [&word[..], &offset.to_ne_bytes(), &size.to_ne_bytes(), &[0; 20]].concat();
    let named = |bytes: &[u8], name: &str| [bytes, name.as_bytes(), &[0]].concat();
    let valid = SetattrValid::MODE | SetattrValid::SIZE | SetattrValid::MTIME | SetattrValid::MTIME_NOW;
    let set = SetattrIn { valid: valid.bits(), size: 3, mode: 0o640, ..SetattrIn::default() };
    let release = [&word[..], &[0; 16]].concat();
    let fallocate = [&word[..], &[0; 8], &[0, 16, 0, 0, 0, 0, 0, 0], &[0; 8]].concat();
    let lseek = [&word[..], &[0; 8], &[4, 0, 0, 0, 0, 0, 0, 0]].concat();
    vec![
        (Opcode::Create, 1, named(&[&[2, 0, 0, 0, 0xa4, 1, 0, 0][..], &none].concat(), "file")),
        (Opcode::Lookup, 1, named(&[], "file")),
        (Opcode::Write, 2, [sized(0, 4), b"text".to_vec()].concat()),
        (Opcode::Read, 2, sized(0, 4)),
        (Opcode::Fallocate, 2, fallocate),
        (Opcode::Lseek, 2, lseek),
        (Opcode::Fsync, 2, [&word[..], &none].concat()),
        (Opcode::Fsync, 2, [&word[..], &[1, 0, 0, 0, 0, 0, 0, 0]].concat()),
        (Opcode::Flush, 2, release.clone()),
        (Opcode::Getattr, 2, double.clone()),
        (Opcode::Setattr, 2, set.as_bytes().to_vec()),
        (Opcode::Access, 2, word.clone()),
        (Opcode::Statfs, 1, Vec::new()),
        (Opcode::Release, 2, release),
        (Opcode::Open, 2, word.clone()),
        (Opcode::Opendir, 1, none.clone()),
        (Opcode::Mkdir, 1, named(&[0xff, 1, 0, 0, 0, 0, 0, 0], "directory")),
        (Opcode::Symlink, 1, named(&named(&[], "link"), "/etc/passwd")),
        (Opcode::Readlink, 4, Vec::new()),
        (Opcode::Link, 1, named(&word, "second")),
        (
            Opcode::Rename2,
            1,
            named(&named(&[&[1, 0, 0, 0, 0, 0, 0, 0][..], &none].concat(), "second"), "third"),
        ),
        (Opcode::Readdirplus, 1, [&[3, 0, 0, 0, 0, 0, 0, 0][..], &[0; 8], &[0, 16, 0, 0], &[0; 20]].concat()),
        (Opcode::Unlink, 1, named(&[], "third")),
        (Opcode::Rmdir, 1, named(&[], "directory")),
        (Opcode::Forget, 2, word),
        (Opcode::Destroy, 0, Vec::new()),
    ]
}

fn files() {
    let [mounted, other] = [(); 2].map(|()| tempfile::tempdir().unwrap().keep());
    let mut client = FilesClient::new(&mounted, false, CachePolicy::Auto).unwrap();
    let folders = vec![Folder { descriptor: client.folder(), read_only: false }];
    let mut threads = Threads::new(Sandbox::new(Rules { folders, ..Rules::default() })).unwrap();
    let work = move || {
        use_runtime();
        client.init();
        for (opcode, node, body) in requests() {
            let (error, _) = client.request(opcode.number(), node, &body);
            // A file system on a disk of the host reports no errors when a file is closed.
            let is_unneeded = opcode == Opcode::Flush && error == libc::ENOSYS;
            assert!(error == 0 || is_unneeded, "{opcode:?}: error {error}");
        }
        // Simulates code that has taken over the thread.
        let flags = OFlags::CREATE | OFlags::WRONLY;
        for folder in [other.as_path(), Path::new("/etc")] {
            let made = openat2(CWD, folder.join("new"), flags, Mode::RWXU, ResolveFlags::empty());
            assert_eq!(made.unwrap_err(), rustix::io::Errno::ACCESS);
        }
        let read = openat2(CWD, "/etc/passwd", OFlags::RDONLY, Mode::empty(), ResolveFlags::empty());
        assert_eq!(read.unwrap_err(), rustix::io::Errno::ACCESS);
        // An `O_PATH` descriptor cannot be used for a change.
        let named = openat2(CWD, "/etc/passwd", OFlags::PATH, Mode::empty(), ResolveFlags::empty()).unwrap();
        assert_eq!(fchmod(&named, Mode::RWXU).unwrap_err(), rustix::io::Errno::BADF);
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let times = Timestamps { last_access: now, last_modification: now };
        assert_eq!(futimens(&named, &times).unwrap_err(), rustix::io::Errno::BADF);
    };
    threads.spawn("files".to_owned(), Role::Files, work).unwrap();
    threads.start().unwrap().into_iter().for_each(|thread| thread.join().unwrap());
}

fn descriptors() {
    let inherited = Path::new("/proc/self/fd/7");
    assert!(inherited.exists());
    let mut file = File::open("/etc/passwd").unwrap();
    close_inherited().unwrap();
    assert!(!inherited.exists());
    file.read_exact(&mut [0]).unwrap();
    println!("output");
}

fn off() {
    let mut threads = Threads::new(Sandbox::off()).unwrap();
    threads.spawn("free".to_owned(), Role::Vcpu, || drop(File::open("/etc/passwd").unwrap())).unwrap();
    threads.start().unwrap().into_iter().for_each(|thread| thread.join().unwrap());
    drop(File::open("/etc/passwd").unwrap());
}

/// Makes a denied call in a process that has a report.
fn report(path: &Path) {
    uhyve::report::create(&Opener::default(), path).unwrap();
    in_thread(|| drop(File::open("/etc/passwd")));
}

#[test]
fn denied_call_is_in_the_report() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.json");
    let outcome = probe::run(&format!("role: report {}", report.display()));
    assert_eq!(outcome.output.status.code(), Some(159), "{}", outcome.errors);
    let json: serde_json::Value = serde_json::from_slice(&fs::read(&report).unwrap()).unwrap();
    assert_eq!((&json["reason"], &json["status"]), (&"sandbox".into(), &159.into()), "{json}");
}

#[test]
fn every_role_can_do_its_work() {
    probe::run("role: work").expect_success();
}

#[test]
fn panic_is_reported_and_ends_its_thread_only() {
    let outcome = probe::run("role: panic");
    let errors = &outcome.errors;
    assert!(errors.contains("uhyve: thread action panicked at hypervisor/tests"), "{errors}");
    assert!(errors.contains("panic of the test\n"), "{errors}");
    assert!(errors.contains("--no-sandbox"), "{errors}");
    outcome.expect_success();
}

#[test]
fn abort_and_stack_overflow_raise_sigabrt() {
    for (action, message) in [("abort", ""), ("overflow", "has overflowed its stack")] {
        let outcome = probe::run(&format!("role: {action}"));
        assert_eq!(outcome.output.status.signal(), Some(libc::SIGABRT), "{}", outcome.errors);
        assert!(outcome.errors.contains(message), "{}", outcome.errors);
    }
}

#[test]
fn confined_process_reaches_no_path_port_or_process() {
    probe::run("role: paths").expect_success();
}

#[test]
fn folders_of_the_rules_stay_accessible() {
    probe::run("role: folders").expect_success();
}

#[test]
fn files_thread_executes_every_request_and_reaches_no_other_folder() {
    probe::run("role: files").expect_success();
}

#[test]
fn inherited_descriptors_are_closed() {
    probe::run_with_descriptor(7, "role: descriptors").expect_success();
}

#[test]
fn disabled_sandbox_allows_everything() {
    probe::run("role: off").expect_success();
}
