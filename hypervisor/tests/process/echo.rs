//! Guest with a driver for the network device that echoes UDP datagrams.

use hermit_interface::machine::HOLE;
use hermit_interface::process::{WRITE, queue_eventfd};
use iced_x86::code_asm::{
    ax, bx, byte_ptr, cx, dword_ptr, eax, ecx, qword_ptr, r12, r12w, r13, r13w, r15, rax, rbp, rbx, rcx, rdx,
    rsi, word_ptr,
};

use crate::guest::{Assembled, FREE, GuestBuilder, Operand};

/// Exit status of a guest that has reached its end.
pub(crate) const DONE: u8 = 42;

/// Interrupt line and registers of the network device in a VM without disks.
const LINE: u32 = 2;
const REGISTERS: u64 = HOLE.start + 0x2000;

/// RX and TX virtqueue, of 8 descriptors each.
const RECEIVE: Rings = Rings(FREE);
const TRANSMIT: Rings = Rings(FREE + 0x3000);

/// Word that is written to a queue event, and buffers of 2 KiB.
const ONE: i32 = FREE + 0x6000;
const BUFFERS: i32 = FREE + 0x8000;
const SIZE: i32 = 0x800;

/// Offsets in a buffer: the frame after the virtio-net header of 12 bytes, and in the frame EtherType, IPv4
/// protocol and addresses, UDP ports and payload.
const FRAME: i32 = 12;
const TYPE: i32 = FRAME + 12;
const PROTOCOL: i32 = FRAME + 23;
const ADDRESSES: i32 = FRAME + 26;
const PORTS: i32 = FRAME + 34;
const DATA: i32 = FRAME + 42;

/// First byte of the last datagram.
pub(crate) const LAST: u8 = b'.';

/// Features VIRTIO_NET_F_CSUM and VIRTIO_NET_F_GUEST_CSUM.
pub(crate) const CHECKSUMS: i32 = 3;

/// Descriptors, the available ring and the used ring, a page each.
#[derive(Clone, Copy)]
struct Rings(i32);

impl Rings {
    fn descriptors(self) -> i32 {
        self.0
    }

    fn available(self) -> i32 {
        self.0 + 0x1000
    }

    fn used(self) -> i32 {
        self.0 + 0x2000
    }
}

/// Builds the image of a guest that sends every datagram back to its sender, until it has received the last
/// one.
///
/// Registers count received frames (rbx), sent frames (r12) and available RX buffers (r13).
pub(crate) fn echo(features: i32) -> Vec<u8> {
    GuestBuilder::image(DONE, |guest| {
        set_up(guest, features)?;
        let [mut again, mut offer] = [(); 2].map(|()| guest.code.create_label());
        guest.code.set_label(&mut again)?;
        guest.code.nop()?;
        receive(guest)?;
        // Frames other than UDP over IPv4 are dropped.
        let code = &mut guest.code;
        code.cmp(word_ptr(rsi + TYPE), 0x0008)?;
        code.jne(offer)?;
        code.cmp(byte_ptr(rsi + PROTOCOL), 17)?;
        code.jne(offer)?;
        swap_addresses(guest)?;
        send(guest)?;
        let mut more = guest.code.create_label();
        guest.code.cmp(byte_ptr(rsi + DATA), i32::from(LAST))?;
        guest.code.jne(more)?;
        guest.exit(i32::from(DONE))?;
        guest.code.set_label(&mut more)?;
        guest.code.nop()?;
        guest.code.set_label(&mut offer)?;
        recycle(guest)?;
        guest.code.jmp(again)
    })
}

/// Initialises the device (virtio 1.2, sections 3.1.1 and 4.2.2), and makes a buffer available for each RX
/// descriptor.
fn set_up(guest: &mut GuestBuilder, features: i32) -> Assembled {
    let mut set = |register: u64, value: i32| {
        guest.hypercall([WRITE.into(), (REGISTERS + register).into(), 4.into(), value.into()])
    };
    for (register, value) in [(0x70, 3), (0x24, 0), (0x20, features), (0x24, 1), (0x20, 1), (0x70, 11)] {
        set(register, value)?;
    }
    for (index, rings) in [(0, RECEIVE), (1, TRANSMIT)] {
        set(0x30, index)?;
        set(0x38, 8)?;
        for (register, address) in
            [(0x80, rings.descriptors()), (0x90, rings.available()), (0xa0, rings.used())]
        {
            set(register, address)?;
        }
        set(0x44, 1)?;
    }
    set(0x70, 15)?;
    for number in 0..8 {
        let descriptor = RECEIVE.descriptors() + 16 * i32::from(number);
        let address = BUFFERS + SIZE * i32::from(number);
        guest.put(descriptor, &u64::try_from(address).unwrap().to_le_bytes())?;
        guest.put(descriptor + 8, &[0, 8, 0, 0, 2, 0, 0, 0])?;
        guest.put(RECEIVE.available() + 4 + 2 * i32::from(number), &[number, 0])?;
    }
    guest.put(ONE, &1_u64.to_le_bytes())?;
    guest.code.xor(rbx, rbx)?;
    guest.code.xor(r12, r12)?;
    guest.code.mov(r13, 8_u64)?;
    guest.put(RECEIVE.available() + 2, &[8, 0])?;
    notify(guest, 0)
}

fn notify(guest: &mut GuestBuilder, queue: u32) -> Assembled {
    let event = u64::from(queue_eventfd(LINE, queue)).into();
    guest.call(libc::SYS_write, [event, Operand::Physical(ONE), 8.into()])
}

/// Waits for a frame; returns its buffer's index in rbp, its address in rsi, and its length with the header
/// in rdx.
fn receive(guest: &mut GuestBuilder) -> Assembled {
    let code = &mut guest.code;
    let mut wait = code.create_label();
    code.set_label(&mut wait)?;
    code.pause()?;
    code.cmp(word_ptr(r15 + (RECEIVE.used() + 2)), bx)?;
    code.je(wait)?;
    code.mov(ecx, 7)?;
    code.and(rcx, rbx)?;
    code.mov(eax, dword_ptr(r15 + rcx * 8 + (RECEIVE.used() + 4)))?;
    code.mov(rbp, rax)?;
    code.mov(eax, dword_ptr(r15 + rcx * 8 + (RECEIVE.used() + 8)))?;
    code.mov(rdx, rax)?;
    code.inc(rbx)?;
    code.mov(rsi, rbp)?;
    code.shl(rsi, 11)?;
    code.lea(rsi, qword_ptr(r15 + rsi + BUFFERS))
}

/// Swaps the addresses and ports of the frame, which does not change its checksums.
fn swap_addresses(guest: &mut GuestBuilder) -> Assembled {
    let code = &mut guest.code;
    for (first, second) in [(FRAME, FRAME + 6), (ADDRESSES, ADDRESSES + 4)] {
        code.mov(eax, dword_ptr(rsi + first))?;
        code.mov(ecx, dword_ptr(rsi + second))?;
        code.mov(dword_ptr(rsi + second), eax)?;
        code.mov(dword_ptr(rsi + first), ecx)?;
    }
    code.mov(ax, word_ptr(rsi + (FRAME + 4)))?;
    code.mov(cx, word_ptr(rsi + (FRAME + 10)))?;
    code.mov(word_ptr(rsi + (FRAME + 10)), ax)?;
    code.mov(word_ptr(rsi + (FRAME + 4)), cx)?;
    code.rol(dword_ptr(rsi + PORTS), 16)
}

/// Sends the frame from its buffer, and waits until the device has used it.
fn send(guest: &mut GuestBuilder) -> Assembled {
    let code = &mut guest.code;
    code.mov(ecx, 7)?;
    code.and(rcx, r12)?;
    code.mov(word_ptr(r15 + rcx * 2 + (TRANSMIT.available() + 4)), cx)?;
    code.shl(rcx, 4)?;
    code.mov(rax, rsi)?;
    code.sub(rax, r15)?;
    code.mov(qword_ptr(r15 + rcx + TRANSMIT.descriptors()), rax)?;
    // No flags, no next descriptor.
    code.mov(qword_ptr(r15 + rcx + (TRANSMIT.descriptors() + 8)), rdx)?;
    code.inc(r12)?;
    code.mov(word_ptr(r15 + (TRANSMIT.available() + 2)), r12w)?;
    code.push(rsi)?;
    notify(guest, 1)?;
    let code = &mut guest.code;
    code.pop(rsi)?;
    let mut wait = code.create_label();
    code.set_label(&mut wait)?;
    code.pause()?;
    code.cmp(word_ptr(r15 + (TRANSMIT.used() + 2)), r12w)?;
    code.jne(wait)
}

/// Makes the frame's buffer available again.
fn recycle(guest: &mut GuestBuilder) -> Assembled {
    let code = &mut guest.code;
    code.mov(ecx, 7)?;
    code.and(rcx, r13)?;
    code.mov(rax, rbp)?;
    code.mov(word_ptr(r15 + rcx * 2 + (RECEIVE.available() + 4)), ax)?;
    code.inc(r13)?;
    code.mov(word_ptr(r15 + (RECEIVE.available() + 2)), r13w)?;
    notify(guest, 0)
}
