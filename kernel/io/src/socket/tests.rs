//! Tests of the socket interface with a family that exists only here: mailboxes, which exchange datagrams by
//! name.
//!
//! The family shows that the interface of sockets suffices for a protocol other than IP. It has its own
//! format of addresses, its own options, and the common options of [`CommonSettings`].

extern crate std;

use super::{CommonSettings, Direction, OptionId, Socket};
use crate::{Argument, DescriptorTable, EventFd, MessageFlags, Object, ReadBuffer, Stat, ValueResult, field};
use core::mem::{MaybeUninit, offset_of};
use core::task::{Context, Poll, Waker};
use hermit_abi::{
    SHUT_RD, SO_BROADCAST, SO_LINGER, SO_RCVTIMEO, SO_SNDTIMEO, SO_TYPE, SOCK_DGRAM, SOCK_STREAM, SOL_SOCKET,
    timeval,
};
use hermit_interface::Errno;
use std::collections::{BTreeMap, VecDeque};
use std::string::String;
use std::sync::{Arc, Mutex, Weak};
use std::vec;
use std::vec::Vec;

/// The address family; no other has this number.
const AF_MAIL: u8 = 77;

/// An option of mailboxes alone: maximum number of datagrams that wait.
const CAPACITY: OptionId = (AF_MAIL as i32, 1);

/// All mailboxes that have a name.
type Post = Arc<Mutex<BTreeMap<String, Weak<Mailbox>>>>;

/// A datagram and the address of its sender.
type Mail = (Vec<u8>, Vec<u8>);

/// The `sockaddr` of a name: length, family, text.
fn address(name: &str) -> Vec<u8> {
    let len = u8::try_from(name.len() + 2).unwrap();
    [&[len, AF_MAIL], name.as_bytes()].concat()
}

/// The name in a `sockaddr`.
fn name(address: &[u8]) -> Result<&str, Errno> {
    match address {
        [_, AF_MAIL, name @ ..] => core::str::from_utf8(name).map_err(|_| Errno::EINVAL),
        [_, _, ..] => Err(Errno::EAFNOSUPPORT),
        _ => Err(Errno::EINVAL),
    }
}

#[derive(Debug)]
struct Mailbox {
    post: Post,
    own: Weak<Self>,
    settings: CommonSettings,
    name: Mutex<Option<String>>,
    peer: Mutex<Option<Vec<u8>>>,
    mails: Mutex<VecDeque<Mail>>,
    capacity: Mutex<usize>,
}

impl Mailbox {
    fn open(post: &Post) -> Arc<dyn Socket> {
        Arc::new_cyclic(|own| Self {
            post: Arc::clone(post),
            own: Weak::clone(own),
            settings: CommonSettings::new(SOCK_DGRAM, true),
            name: Mutex::default(),
            peer: Mutex::default(),
            mails: Mutex::default(),
            capacity: Mutex::new(2),
        })
    }

    fn own_address(&self) -> Vec<u8> {
        self.name.lock().unwrap().as_deref().map(address).unwrap_or_default()
    }

    fn deliver(&self, bytes: &[u8], to: &[u8]) -> Result<usize, Errno> {
        let found = self.post.lock().unwrap().get(name(to)?).and_then(Weak::upgrade);
        let receiver = found.ok_or(Errno::ECONNREFUSED)?;
        let mut mails = receiver.mails.lock().unwrap();
        if mails.len() == *receiver.capacity.lock().unwrap() {
            return Err(Errno::EAGAIN);
        }
        mails.push_back((bytes.to_vec(), self.own_address()));
        Ok(bytes.len())
    }
}

impl Object for Mailbox {
    fn as_socket(&self) -> Option<&dyn Socket> {
        Some(self)
    }

    fn poll_read(&self, _context: &mut Context<'_>, buffer: &mut ReadBuffer<'_>) -> Poll<Result<(), Errno>> {
        Poll::Ready(self.receive(buffer, MessageFlags::default(), None))
    }

    fn poll_write(&self, _context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize, Errno>> {
        Poll::Ready(self.send(bytes, MessageFlags::default()))
    }

    fn stat(&self) -> Result<Stat, Errno> {
        Ok(Stat::SOCKET)
    }
}

impl Socket for Mailbox {
    fn settings(&self) -> &CommonSettings {
        &self.settings
    }

    fn bind(&self, address: &[u8]) -> Result<(), Errno> {
        let name = name(address)?;
        *self.name.lock().unwrap() = Some(name.into());
        self.post.lock().unwrap().insert(name.into(), Weak::clone(&self.own));
        Ok(())
    }

    fn connect(&self, address: &[u8]) -> Result<(), Errno> {
        name(address)?;
        *self.peer.lock().unwrap() = Some(address.to_vec());
        Ok(())
    }

    fn send(&self, bytes: &[u8], _flags: MessageFlags) -> Result<usize, Errno> {
        let peer = self.peer.lock().unwrap().clone().ok_or(Errno::EDESTADDRREQ)?;
        self.deliver(bytes, &peer)
    }

    fn send_to(&self, bytes: Argument<'_>, address: &[u8], _flags: MessageFlags) -> Result<usize, Errno> {
        name(address)?;
        self.deliver(bytes.get()?, address)
    }

    fn receive(
        &self,
        buffer: &mut ReadBuffer<'_>,
        flags: MessageFlags,
        from: Option<&mut dyn ValueResult>,
    ) -> Result<(), Errno> {
        let mut mails = self.mails.lock().unwrap();
        let mail = if flags.peek { mails.front().cloned() } else { mails.pop_front() };
        let (bytes, sender) = mail.ok_or(Errno::EAGAIN)?;
        buffer.append(&bytes);
        from.map_or(Ok(()), |from| from.write_truncated(&sender))
    }

    fn shutdown(&self, _how: i32) -> Result<(), Errno> {
        self.mails.lock().unwrap().clear();
        Ok(())
    }

    fn local(&self, address: &mut dyn ValueResult) -> Result<(), Errno> {
        address.write_truncated(&self.own_address())
    }

    fn remote(&self, address: &mut dyn ValueResult) -> Result<(), Errno> {
        let peer = self.peer.lock().unwrap().clone().ok_or(Errno::ENOTCONN)?;
        address.write_truncated(&peer)
    }

    fn set_family_option(&self, option: OptionId, value: &Argument<'_>) -> Result<(), Errno> {
        if option != CAPACITY {
            return Err(Errno::ENOPROTOOPT);
        }
        let capacity = field(value.structure(size_of::<i32>())?, 0).map(i32::from_ne_bytes);
        let capacity = capacity.and_then(|capacity| usize::try_from(capacity).ok());
        *self.capacity.lock().unwrap() = capacity.ok_or(Errno::EINVAL)?;
        Ok(())
    }

    fn family_option(&self, option: OptionId, value: &mut dyn ValueResult) -> Result<(), Errno> {
        if option != CAPACITY {
            return Err(Errno::ENOPROTOOPT);
        }
        value.write(&i32::try_from(*self.capacity.lock().unwrap()).unwrap().to_ne_bytes())
    }
}

/// A value-result argument with room for some bytes.
#[derive(Debug, PartialEq, Eq)]
struct Memory {
    bytes: Vec<u8>,
    room: usize,
    /// The size that the call has stored.
    size: usize,
}

impl Memory {
    fn new(room: usize) -> Self {
        Self { bytes: Vec::new(), room, size: room }
    }
}

impl ValueResult for Memory {
    fn write(&mut self, result: &[u8]) -> Result<(), Errno> {
        if self.room < result.len() { Err(Errno::EINVAL) } else { self.write_truncated(result) }
    }

    fn write_truncated(&mut self, result: &[u8]) -> Result<(), Errno> {
        self.bytes = result[..result.len().min(self.room)].to_vec();
        self.size = result.len();
        Ok(())
    }
}

/// A mailbox, bound to `name`.
fn bound(post: &Post, name: &str) -> Arc<dyn Socket> {
    let mailbox = Mailbox::open(post);
    mailbox.bind(&address(name)).unwrap();
    mailbox
}

/// Receives or peeks at a datagram; returns its size, and the written bytes of its sender's address.
fn receive(socket: &dyn Socket, peek: bool) -> Result<(usize, Memory), Errno> {
    let mut memory = [MaybeUninit::uninit(); 16];
    let mut buffer = ReadBuffer::new(&mut memory);
    let mut from = Memory::new(4);
    let flags = MessageFlags { peek, ..MessageFlags::default() };
    socket.receive(&mut buffer, flags, Some(&mut from)).map(|()| (buffer.len(), from))
}

fn option(socket: &dyn Socket, option: OptionId, room: usize) -> Result<Vec<u8>, Errno> {
    let mut value = Memory::new(room);
    socket.option(option, &mut value).map(|()| value.bytes)
}

fn set_option(socket: &dyn Socket, option: OptionId, value: &[u8]) -> Result<(), Errno> {
    socket.set_option(option, &Argument::from(value))
}

/// Bytes of a `timeval`.
fn time(seconds: i64, microseconds: i32) -> Vec<u8> {
    let mut bytes = vec![0; size_of::<timeval>()];
    bytes[offset_of!(timeval, tv_sec)..][..8].copy_from_slice(&seconds.to_ne_bytes());
    bytes[offset_of!(timeval, tv_usec)..][..4].copy_from_slice(&microseconds.to_ne_bytes());
    bytes
}

#[test]
fn socket_is_found_behind_a_descriptor_and_other_objects_are_none() {
    let table: DescriptorTable<parking_lot::RawMutex, Arc<dyn Object>> = DescriptorTable::new();
    let [socket, event] = [table.reserve().unwrap(), table.reserve().unwrap()];
    table.fill(socket, Mailbox::open(&Post::default()));
    table.fill(event, Arc::new(EventFd::<parking_lot::RawMutex>::new(0, false, true)));
    let object = table.get(socket).unwrap();
    assert_eq!(object.as_socket().unwrap().bind(&address("a")), Ok(()));
    assert!(table.get(event).unwrap().as_socket().is_none());
}

#[test]
fn datagram_arrives_with_the_address_of_its_sender() {
    let post = Post::default();
    let [anna, bernd] = ["anna", "bernd"].map(|name| bound(&post, name));
    assert_eq!(anna.send_to(b"hello"[..].into(), &address("bernd"), MessageFlags::default()), Ok(5));
    let sender = Memory { bytes: address("anna")[..4].to_vec(), room: 4, size: 6 };
    assert_eq!(receive(&*bernd, true), Ok((5, sender)));
    assert_eq!(receive(&*bernd, false).unwrap().0, 5);
    assert_eq!(receive(&*bernd, false), Err(Errno::EAGAIN));
}

#[test]
fn read_and_write_are_calls_of_the_socket() {
    let post = Post::default();
    let [anna, bernd] = ["anna", "bernd"].map(|name| bound(&post, name));
    let mut context = Context::from_waker(Waker::noop());
    assert_eq!(anna.poll_write(&mut context, b"a"), Poll::Ready(Err(Errno::EDESTADDRREQ)));
    anna.connect(&address("bernd")).unwrap();
    assert_eq!(anna.poll_write(&mut context, b"a"), Poll::Ready(Ok(1)));
    let mut memory = [MaybeUninit::uninit(); 4];
    let mut buffer = ReadBuffer::new(&mut memory);
    assert_eq!(bernd.poll_read(&mut context, &mut buffer), Poll::Ready(Ok(())));
    assert_eq!(buffer.len(), 1);
}

#[test]
fn addresses_are_those_of_bind_and_connect() {
    let socket = bound(&Post::default(), "anna");
    let mut memory = Memory::new(16);
    assert_eq!(socket.remote(&mut memory), Err(Errno::ENOTCONN));
    socket.connect(&address("bernd")).unwrap();
    socket.remote(&mut memory).unwrap();
    assert_eq!(memory.bytes, address("bernd"));
    socket.local(&mut memory).unwrap();
    assert_eq!(memory.bytes, address("anna"));
}

#[test]
fn invalid_address_counts_before_an_invalid_pointer() {
    let socket = Mailbox::open(&Post::default());
    let bytes = Argument::new(1, Err(Errno::EFAULT));
    assert_eq!(socket.send_to(bytes, &[], MessageFlags::default()), Err(Errno::EINVAL));
    assert_eq!(socket.send_to(bytes, &[16, 3], MessageFlags::default()), Err(Errno::EAFNOSUPPORT));
    assert_eq!(socket.send_to(bytes, &address("a"), MessageFlags::default()), Err(Errno::EFAULT));
}

#[test]
fn call_that_a_family_does_not_have_is_not_supported() {
    let socket = Mailbox::open(&Post::default());
    assert_eq!(socket.listen(1), Err(Errno::EOPNOTSUPP));
    assert_eq!(socket.accept(None).err(), Some(Errno::EOPNOTSUPP));
    assert_eq!(socket.shutdown(SHUT_RD), Ok(()));
    assert_eq!(socket.stat().unwrap().mode & 0o17_0000, 0o14_0000);
}

#[test]
fn option_of_the_family_is_its_own() {
    let socket = Mailbox::open(&Post::default());
    assert_eq!(set_option(&*socket, CAPACITY, &5_i32.to_ne_bytes()), Ok(()));
    assert_eq!(option(&*socket, CAPACITY, 4), Ok(5_i32.to_ne_bytes().to_vec()));
    assert_eq!(option(&*socket, CAPACITY, 3), Err(Errno::EINVAL));
    assert_eq!(set_option(&*socket, CAPACITY, &[0; 3]), Err(Errno::EINVAL));
    assert_eq!(set_option(&*socket, (SOL_SOCKET, SO_BROADCAST), &[0; 4]), Err(Errno::ENOPROTOOPT));
    assert_eq!(option(&*socket, (SOL_SOCKET, SO_BROADCAST), 4), Err(Errno::ENOPROTOOPT));
}

#[test]
fn type_can_be_read_only() {
    let socket = Mailbox::open(&Post::default());
    assert_eq!(option(&*socket, (SOL_SOCKET, SO_TYPE), 8), Ok(SOCK_DGRAM.to_ne_bytes().to_vec()));
    assert_eq!(set_option(&*socket, (SOL_SOCKET, SO_TYPE), &[0; 4]), Err(Errno::ENOPROTOOPT));
}

#[test]
fn timeouts_are_kept_in_microseconds() {
    let socket = Mailbox::open(&Post::default());
    let (receive, send) = ((SOL_SOCKET, SO_RCVTIMEO), (SOL_SOCKET, SO_SNDTIMEO));
    assert_eq!(option(&*socket, receive, 16), Ok(time(0, 0)));
    assert_eq!(socket.settings().deadline(Direction::Receive, || unreachable!()), None);
    assert_eq!(set_option(&*socket, receive, &time(1, 2)), Ok(()));
    assert_eq!((option(&*socket, receive, 16), option(&*socket, send, 16)), (Ok(time(1, 2)), Ok(time(0, 0))));
    assert_eq!(socket.settings().deadline(Direction::Receive, || 5), Some(1_000_002_005));
    assert_eq!(socket.settings().deadline(Direction::Receive, || u64::MAX), Some(u64::MAX));
    assert_eq!(set_option(&*socket, send, &time(-1, 0)), Ok(()));
    assert_eq!(
        socket.settings().deadline(Direction::Send, || 5),
        Some(5),
        "a negative timeout expires at once"
    );
    assert_eq!(option(&*socket, send, 16), Ok(time(0, 0)));
}

#[test]
fn long_timeouts_are_kept_and_the_longest_are_none() {
    let socket = Mailbox::open(&Post::default());
    let timeout = (SOL_SOCKET, SO_RCVTIMEO);
    // Nanoseconds would need more than 64 bits.
    let long = time(18_446_744_074, 999_999);
    assert_eq!(set_option(&*socket, timeout, &long), Ok(()));
    assert_eq!(option(&*socket, timeout, 16), Ok(long));
    assert_eq!(socket.settings().deadline(Direction::Receive, || 5), Some(u64::MAX));
    assert_eq!(set_option(&*socket, timeout, &time(i64::MAX, 999_999)), Ok(()));
    assert_eq!(option(&*socket, timeout, 16), Ok(time(0, 0)));
    assert_eq!(socket.settings().deadline(Direction::Receive, || unreachable!()), None);
}

#[test]
fn invalid_timeout_is_rejected() {
    let socket = Mailbox::open(&Post::default());
    let timeout = (SOL_SOCKET, SO_SNDTIMEO);
    for microseconds in [-1, 1_000_000] {
        assert_eq!(set_option(&*socket, timeout, &time(0, microseconds)), Err(Errno::EDOM));
    }
    assert_eq!(set_option(&*socket, timeout, &[0; 15]), Err(Errno::EINVAL));
    assert_eq!(socket.set_option(timeout, &Argument::new(16, Err(Errno::EFAULT))), Err(Errno::EFAULT));
    assert_eq!(option(&*socket, timeout, 16), Ok(time(0, 0)));
}

#[test]
fn linger_time_is_kept_while_linger_is_on() {
    let socket = Mailbox::open(&Post::default());
    let linger = |is_on: i32, seconds: i32| [is_on.to_ne_bytes(), seconds.to_ne_bytes()].concat();
    let id = (SOL_SOCKET, SO_LINGER);
    assert_eq!((option(&*socket, id, 8), socket.settings().linger()), (Ok(linger(0, 0)), None));
    for (set, read, expected) in [
        (linger(2, 7), linger(1, 7), Some(7)),
        (linger(1, -3), linger(1, 0), Some(0)),
        (linger(0, 9), linger(0, 0), None),
    ] {
        assert_eq!(set_option(&*socket, id, &set), Ok(()));
        assert_eq!((option(&*socket, id, 8), socket.settings().linger()), (Ok(read), expected));
    }
}

#[test]
fn accepted_socket_inherits_all_but_nonblocking() {
    let listener = CommonSettings::new(SOCK_STREAM, true);
    let time = time(0, 3);
    listener.set(super::CommonOption::Timeout(Direction::Send), &Argument::from(&*time)).unwrap();
    let accepted = listener.inherited();
    assert_eq!((listener.is_nonblocking(), accepted.is_nonblocking()), (true, false));
    assert_eq!(accepted.deadline(Direction::Send, || 0), Some(3_000));
    accepted.set_nonblocking(true);
    assert!(accepted.is_nonblocking());
}
