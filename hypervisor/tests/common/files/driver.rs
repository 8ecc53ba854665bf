//! The guest's driver for the file-system device. It sends valid and invalid requests, and records the
//! replies.

use hermit_fuse::request::{InitIn, WriteIn};
use hermit_fuse::{InHeader, MAJOR_VERSION, MINOR_VERSION, Opcode, ROOT_NODE, VIRTIO_DEVICE_ID};
use iced_x86::code_asm::{ax, byte_ptr, eax, ecx, qword_ptr, r12, r15, rax, rdi, rsi, word_ptr};
use zerocopy::{FromZeros, Immutable, IntoBytes};

use super::{Assembled, Machine};

/// Physical addresses of the parts of the request queue.
const DESCRIPTORS: u32 = 0x9_0000;
const AVAILABLE: u32 = 0x9_0200;
const USED: u32 = 0x9_0400;

/// Physical addresses of a request and of its reply, and the size of the reply's buffer in bytes.
pub(super) const REQUEST: u32 = 0x9_1000;
pub(super) const REPLY: u32 = 0x9_4000;
pub(super) const ROOM: u32 = 0x1000;

/// Physical address of the records of replies.
const RECORDS: u32 = 0xa_0000;
/// Size of a record in bytes. A record is the reply's header and the first bytes of its data.
pub(super) const RECORD: u32 = 24;

/// Physical address of the node and handle numbers that the guest has received.
const NUMBERS: u32 = 0x9_8000;

/// Offsets of registers (virtio 1.2 §4.2.2).
const DEVICE_ID: u64 = 0x08;
const STATUS: u64 = 0x70;

/// Exit status of a guest that finds another device in place of the file-system device.
const NO_DEVICE: u8 = 4;

/// `Status` of a live device, and the status bit of a device that has found an invalid queue (virtio 1.2
/// §2.1).
const DRIVER_OK: u32 = 1 | 2 | 4 | 8;
const NEEDS_RESET: u32 = 0x40;

/// Flags of a descriptor (virtio 1.2 §2.7.5).
pub(super) const NEXT: u16 = 1;
pub(super) const WRITE: u16 = 2;
pub(super) const INDIRECT: u16 = 4;

/// Index of the request queue.
const REQUESTS: u32 = 1;

/// A descriptor: address, length, flags, next.
pub(super) type Descriptor = (u64, u32, u16, u16);

/// Name of the file in the folder to which the guest writes its records.
pub(super) const RECORDS_FILE: &str = "records";

/// A node or handle number that the guest has received from the device. Its value is known only to the guest.
#[derive(Clone, Copy)]
pub(super) struct Number(u32);

impl Number {
    const fn address(self) -> u32 {
        NUMBERS + 8 * self.0
    }
}

/// Expected reply to a request.
#[derive(Debug)]
pub(crate) struct Expected {
    /// Name of the attempt.
    pub(crate) name: String,
    /// Errno of the reply, 0 for success.
    pub(crate) errno: i32,
    /// Identifier of the request, which the reply repeats.
    pub(crate) unique: u64,
}

/// A request before it is sent.
pub(super) struct Request {
    pub(super) header: InHeader,
    pub(super) body: Vec<u8>,
    /// Offsets in the request at which the guest inserts received numbers.
    numbers: Vec<(u32, Number)>,
}

impl Request {
    pub(super) fn new(opcode: Opcode, nodeid: u64, body: &(impl IntoBytes + Immutable), rest: &[u8]) -> Self {
        let body = [body.as_bytes(), rest].concat();
        let len = u32::try_from(size_of::<InHeader>() + body.len()).unwrap();
        let header = InHeader { len, opcode: opcode.number(), unique: 1, nodeid, ..InHeader::new_zeroed() };
        Self { header, body, numbers: Vec::new() }
    }

    /// Creates a request whose data is `names`, each with a NUL at its end.
    pub(super) fn names(opcode: Opcode, nodeid: u64, names: &[&str]) -> Self {
        let bytes: Vec<u8> = names.iter().flat_map(|name| name.bytes().chain([0])).collect();
        Self::new(opcode, nodeid, &[0_u8; 0], &bytes)
    }

    /// Inserts a received number at `offset` after the header.
    pub(super) fn with(mut self, offset: u32, number: Number) -> Self {
        self.numbers.push((40 + offset, number));
        self
    }

    /// Inserts a received number into the header, as the node.
    pub(super) fn of(mut self, node: Number) -> Self {
        self.numbers.push((16, node));
        self
    }

    fn bytes(&self) -> Vec<u8> {
        [self.header.as_bytes(), &self.body].concat()
    }
}

/// Emits instructions of the guest. They may change rax, rcx, rdi and rsi.
pub(crate) struct Driver<'a, M> {
    machine: &'a mut M,
    expected: Vec<Expected>,
    numbers: u32,
}

impl<'a, M: Machine> Driver<'a, M> {
    pub(super) fn new(machine: &'a mut M) -> Self {
        Self { machine, expected: Vec::new(), numbers: 0 }
    }

    /// Copies bytes to memory. The bytes are stored among the instructions.
    pub(super) fn store(&mut self, address: u32, bytes: &[u8]) -> Assembled {
        let code = self.machine.code();
        let (mut data, mut end) = (code.create_label(), code.create_label());
        code.jmp(end)?;
        code.set_label(&mut data)?;
        code.db(bytes)?;
        code.set_label(&mut end)?;
        code.lea(rsi, qword_ptr(data))?;
        code.lea(rdi, qword_ptr(r15 + address))?;
        code.mov(ecx, u32::try_from(bytes.len()).unwrap())?;
        code.rep().movsb()
    }

    fn copy(&mut self, from: u32, to: u32, size: u32) -> Assembled {
        let code = self.machine.code();
        code.lea(rsi, qword_ptr(r15 + from))?;
        code.lea(rdi, qword_ptr(r15 + to))?;
        code.mov(ecx, size)?;
        code.rep().movsb()
    }

    /// Exits with a status unless the device is a file-system device.
    pub(super) fn check_device(&mut self) -> Assembled {
        self.machine.read_register(DEVICE_ID)?;
        let mut is_files = self.machine.code().create_label();
        self.machine.code().cmp(eax, VIRTIO_DEVICE_ID)?;
        self.machine.code().je(is_files)?;
        self.machine.exit_with(NO_DEVICE)?;
        self.machine.code().set_label(&mut is_files)?;
        self.machine.code().nop()
    }

    /// Resets the device, initialises it with its request queue, and begins a FUSE session.
    pub(super) fn start(&mut self) -> Assembled {
        let code = self.machine.code();
        code.lea(rdi, qword_ptr(r15 + DESCRIPTORS))?;
        code.mov(ecx, 0x600_u32)?;
        code.xor(eax, eax)?;
        code.rep().stosb()?;
        // Reset, ACKNOWLEDGE and DRIVER; VIRTIO_F_INDIRECT_DESC and VIRTIO_F_VERSION_1; FEATURES_OK.
        let begin =
            [(STATUS, 0), (STATUS, 3), (0x24, 0), (0x20, 1 << 28), (0x24, 1), (0x20, 1), (STATUS, 11)];
        let queue = [(0x30, REQUESTS), (0x38, 8), (0x80, DESCRIPTORS), (0x90, AVAILABLE), (0xa0, USED)];
        let end = [(0x84, 0), (0x94, 0), (0xa4, 0), (0x44, 1), (STATUS, DRIVER_OK)];
        for (offset, value) in begin.into_iter().chain(queue).chain(end) {
            self.machine.write_register(offset, value)?;
        }
        let init = InitIn { major: MAJOR_VERSION, minor: MINOR_VERSION, ..InitIn::new_zeroed() };
        self.request(&Request::new(Opcode::Init, 0, &init, &[]))
    }

    /// Sends a chain of these descriptors, and waits until the device has used it or needs a reset.
    pub(super) fn chain(&mut self, descriptors: &[Descriptor]) -> Assembled {
        let mut table = Vec::new();
        for &(address, length, flags, next) in descriptors {
            table.extend(address.to_le_bytes());
            table.extend(length.to_le_bytes());
            table.extend(flags.to_le_bytes());
            table.extend(next.to_le_bytes());
        }
        self.store(DESCRIPTORS, &table)?;
        // All entries of the available ring are zero, and so are the heads of all chains.
        self.machine.code().inc(word_ptr(r15 + (AVAILABLE + 2)))?;
        self.machine.notify(REQUESTS)?;
        let code = self.machine.code();
        let (mut again, mut done) = (code.create_label(), code.create_label());
        code.set_label(&mut again)?;
        code.mov(ax, word_ptr(r15 + (AVAILABLE + 2)))?;
        code.cmp(word_ptr(r15 + (USED + 2)), ax)?;
        code.je(done)?;
        self.machine.read_register(STATUS)?;
        let code = self.machine.code();
        code.test(eax, NEEDS_RESET)?;
        code.je(again)?;
        code.set_label(&mut done)?;
        code.nop()
    }

    /// Sends a request unchanged, with a buffer for the reply.
    pub(super) fn request(&mut self, request: &Request) -> Assembled {
        let bytes = request.bytes();
        self.store(REQUEST, &bytes)?;
        for &(offset, number) in &request.numbers {
            self.copy(number.address(), REQUEST + offset, 8)?;
        }
        // Invalidates an earlier reply in the buffer, so that it is not taken for the new one.
        self.machine.code().mov(byte_ptr(r15 + (REPLY + 4)), 1)?;
        let size = u32::try_from(bytes.len()).unwrap();
        self.chain(&[(REQUEST.into(), size, NEXT, 1), (REPLY.into(), ROOM, WRITE, 0)])
    }

    /// Records the reply to an attempt, for [`Self::finish`].
    fn record(&mut self, name: &str, errno: i32, unique: u64) -> Assembled {
        let index = u32::try_from(self.expected.len()).unwrap();
        self.expected.push(Expected { name: name.to_owned(), errno, unique });
        self.copy(REPLY, RECORDS + RECORD * index, RECORD)
    }

    /// Sends a request whose reply must have this errno, 0 for success.
    pub(super) fn attempt(&mut self, name: &str, request: &Request, errno: i32) -> Assembled {
        self.request(request)?;
        self.record(name, errno, request.header.unique)
    }

    /// Keeps the node or handle number at `offset` in the data of the last reply.
    pub(super) fn keep(&mut self, offset: u32) -> Result<Number, iced_x86::IcedError> {
        let number = Number(self.numbers);
        self.numbers += 1;
        self.copy(REPLY + 16 + offset, number.address(), 8)?;
        Ok(number)
    }

    /// Sends an invalid chain. The device must then need a reset, and work again after it.
    pub(super) fn invalid_chain(&mut self, name: &str, descriptors: &[Descriptor]) -> Assembled {
        self.chain(descriptors)?;
        self.start()?;
        self.record(&format!("session after {name}"), 0, 1)
    }

    /// Repeats `body` `times` times.
    pub(super) fn repeat(&mut self, times: u32, body: impl FnOnce(&mut Self) -> Assembled) -> Assembled {
        let mut again = self.machine.code().create_label();
        self.machine.code().mov(r12, u64::from(times))?;
        self.machine.code().set_label(&mut again)?;
        body(self)?;
        self.machine.code().dec(r12)?;
        self.machine.code().jne(again)
    }

    /// Exits with a status if the data of the last reply begins with these bytes.
    pub(super) fn exit_if_read(&mut self, bytes: [u8; 8], status: u8) -> Assembled {
        let code = self.machine.code();
        let mut differs = code.create_label();
        code.mov(rax, u64::from_le_bytes(bytes))?;
        code.cmp(qword_ptr(r15 + (REPLY + 16)), rax)?;
        code.jne(differs)?;
        self.machine.exit_with(status)?;
        self.machine.code().set_label(&mut differs)?;
        self.machine.code().nop()
    }

    /// Writes the records to a file in the folder, and returns the expected records.
    pub(super) fn finish(mut self) -> Result<Vec<Expected>, iced_x86::IcedError> {
        let size = RECORD * u32::try_from(self.expected.len()).unwrap();
        let create = [1_u32, 0o600, 0, 0];
        let name = [RECORDS_FILE.as_bytes(), &[0]].concat();
        self.request(&Request::new(Opcode::Create, ROOT_NODE, &create, &name))?;
        // The handle follows the entry of 128 bytes.
        let handle = self.keep(128)?;
        let write = WriteIn { size, ..WriteIn::new_zeroed() };
        let mut request = Request::new(Opcode::Write, 0, &write, &[]).with(0, handle);
        request.header.len += size;
        let head = request.bytes();
        self.store(REQUEST, &head)?;
        self.copy(handle.address(), REQUEST + 40, 8)?;
        let head = u32::try_from(head.len()).unwrap();
        let data = (RECORDS.into(), size, NEXT, 2);
        self.chain(&[(REQUEST.into(), head, NEXT, 1), data, (REPLY.into(), ROOM, WRITE, 0)])?;
        Ok(self.expected)
    }
}
