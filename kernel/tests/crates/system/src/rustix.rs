//! System calls: files, locks, pipes and sockets.

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::{self, FileType, FlockOperation, Mode, OFlags, SeekFrom};
use rustix::io::{self, Errno, IoSlice};
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::net::{Ipv4Addr, SocketAddrV4};

pub fn run() -> crate_uses::Result {
    files();
    pipes();
    sockets();
    Ok(())
}

fn files() {
    let path = std::env::temp_dir().join(format!("rustix-use-{}", std::process::id()));
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
    let fd = fs::open(&path, flags, Mode::RUSR | Mode::WUSR).unwrap();
    assert_eq!(fs::open(&path, flags, Mode::RUSR).unwrap_err(), Errno::EXIST);
    assert_eq!(io::write(&fd, b"hello, ").unwrap(), 7);
    assert_eq!(io::writev(&fd, &[IoSlice::new(b"wor"), IoSlice::new(b"ld")]).unwrap(), 5);
    let mut bytes = [0; 5];
    assert_eq!(io::pread(&fd, &mut bytes, 7).unwrap(), 5);
    println!("pread {:?}", std::str::from_utf8(&bytes).unwrap());
    assert_eq!(io::pwrite(&fd, b"W", 7).unwrap(), 1);
    assert_eq!(fs::seek(&fd, SeekFrom::End(-5)).unwrap(), 7);
    assert_eq!(io::read(&fd, &mut bytes).unwrap(), 5);
    println!("read {:?}", std::str::from_utf8(&bytes).unwrap());
    fs::ftruncate(&fd, 3).unwrap();
    fs::fsync(&fd).unwrap();
    let stat = fs::fstat(&fd).unwrap();
    println!(
        "{:?} {:o} {}",
        FileType::from_raw_mode(stat.st_mode),
        Mode::from_raw_mode(stat.st_mode),
        stat.st_size
    );
    fs::chmod(&path, Mode::RUSR).unwrap();
    println!("{:o}", Mode::from_raw_mode(fs::stat(&path).unwrap().st_mode));
    println!("{:?}", fs::fcntl_getfl(&fd).unwrap() & (OFlags::RWMODE | OFlags::APPEND));
    fs::fcntl_setfl(&fd, OFlags::APPEND).unwrap();
    println!("{:?}", fs::fcntl_getfl(&fd).unwrap() & (OFlags::RWMODE | OFlags::APPEND));
    let other = fs::open(&path, OFlags::RDONLY, Mode::empty()).unwrap();
    fs::flock(&fd, FlockOperation::LockExclusive).unwrap();
    println!("{:?}", fs::flock(&other, FlockOperation::NonBlockingLockShared).unwrap_err());
    fs::flock(&fd, FlockOperation::Unlock).unwrap();
    fs::flock(&other, FlockOperation::NonBlockingLockShared).unwrap();
    let link = path.with_extension("link");
    fs::symlink(&path, &link).unwrap();
    assert_eq!(fs::readlink(&link, Vec::new()).unwrap().to_bytes(), path.to_str().unwrap().as_bytes());
    println!("{:?}", FileType::from_raw_mode(fs::lstat(&link).unwrap().st_mode));
    let renamed = path.with_extension("renamed");
    fs::rename(&path, &renamed).unwrap();
    println!("{:?}", fs::stat(&link).unwrap_err());
    fs::unlink(&link).unwrap();
    fs::unlink(&renamed).unwrap();
    println!("{}", fs::unlink(&renamed).unwrap_err().kind());
    fs::mkdir(&path, Mode::RWXU).unwrap();
    fs::rmdir(&path).unwrap();
}

fn pipes() {
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    let wait = |flags, seconds| {
        let mut fds = [PollFd::new(&reader, flags)];
        let timeout = Timespec { tv_sec: seconds, tv_nsec: 1_000_000 };
        (poll(&mut fds, Some(&timeout)).unwrap(), fds[0].revents())
    };
    println!("{:?}", wait(PollFlags::IN, 0));
    io::write(&writer, b"x").unwrap();
    println!("{:?}", wait(PollFlags::IN, 10));
    rustix::io::ioctl_fionbio(&reader, true).unwrap();
    let mut bytes = [0; 2];
    assert_eq!(io::read(&reader, &mut bytes).unwrap(), 1);
    println!("{:?}", io::read(&reader, &mut bytes).unwrap_err());
    drop(writer);
    assert_eq!(io::read(&reader, &mut bytes).unwrap(), 0);
    let (_, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).unwrap();
    println!("{:?}", io::write(&writer, b"x").unwrap_err());
    let counter = eventfd(1, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).unwrap();
    io::write(&counter, &4u64.to_ne_bytes()).unwrap();
    let mut count = [0; 8];
    io::read(&counter, &mut count).unwrap();
    println!("{} {:?}", u64::from_ne_bytes(count), io::read(&counter, &mut count).unwrap_err());
}

fn sockets() {
    let listener = net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    net::sockopt::set_socket_reuseaddr(&listener, true).unwrap();
    net::bind(&listener, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
    net::listen(&listener, 4).unwrap();
    let address: SocketAddrV4 = net::getsockname(&listener).unwrap().try_into().unwrap();
    println!("{}", address.ip());
    let client =
        net::socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    net::sockopt::set_tcp_nodelay(&client, true).unwrap();
    assert!(net::sockopt::tcp_nodelay(&client).unwrap());
    net::connect(&client, &address).unwrap();
    let (server, peer) = net::acceptfrom(&listener).unwrap();
    let local: SocketAddrV4 = net::getsockname(&client).unwrap().try_into().unwrap();
    assert_eq!(SocketAddrV4::try_from(peer.unwrap()).unwrap(), local);
    assert_eq!(net::send(&client, b"ping", SendFlags::empty()).unwrap(), 4);
    let mut bytes = [0; 8];
    let (_, count) = net::recv(&server, &mut bytes, RecvFlags::PEEK).unwrap();
    let (_, again) = net::recv(&server, &mut bytes, RecvFlags::empty()).unwrap();
    println!("{count} {again} {:?}", std::str::from_utf8(&bytes[..again]).unwrap());
    net::shutdown(&client, net::Shutdown::Write).unwrap();
    assert_eq!(net::recv(&server, &mut bytes, RecvFlags::empty()).unwrap().1, 0);
    println!("{:?}", net::bind(&client, &address).unwrap_err());
    let six = net::socket(AddressFamily::INET6, SocketType::DGRAM, None).unwrap();
    net::bind(&six, &std::net::SocketAddrV6::new(std::net::Ipv6Addr::LOCALHOST, 0, 0, 0)).unwrap();
    let own: std::net::SocketAddrV6 = net::getsockname(&six).unwrap().try_into().unwrap();
    net::sendto(&six, b"six", SendFlags::empty(), &own).unwrap();
    let (_, count, from) = net::recvfrom(&six, &mut bytes, RecvFlags::empty()).unwrap();
    println!("{count} {} {}", own.ip(), from == Some(own.into()));
    drop(listener);
    let refused = net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    println!("{:?}", net::connect(&refused, &address).unwrap_err());
}
