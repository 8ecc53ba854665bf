//! Accesses to ports and addresses without memory.

use hermit_interface::exit::QUIT_PORT;
use hermit_interface::machine::{HOLE, TEXT_PORT};
use iced_x86::code_asm::{
    al, ax, byte_ptr, dword_ptr, dx, eax, ecx, edx, qword_ptr, r13, rax, rbx, rcx, rdi, rsi, word_ptr,
};

use crate::guest::{Assembled, BUFFERS, CODE, Guest};
use crate::host::Host;

/// A status by which a test knows that the guest came to its end.
const DONE: u8 = 42;

fn run(write: impl FnOnce(&mut Guest) -> Assembled) -> Option<i32> {
    let mut host = Host::new()?;
    let disk = host.disk("disk", 8);
    host.option("--block");
    host.option(&disk.name());
    Some(host.run(&Guest::image(DONE, write)))
}

/// Reads and writes 1, 2, 4 and 8 bytes at the address in rbx.
fn touch(guest: &mut Guest) -> Assembled {
    let code = &mut guest.code;
    code.mov(al, byte_ptr(rbx))?;
    code.mov(ax, word_ptr(rbx))?;
    code.mov(eax, dword_ptr(rbx))?;
    code.mov(rax, qword_ptr(rbx))?;
    code.mov(rax, r13)?;
    code.mov(byte_ptr(rbx), al)?;
    code.mov(word_ptr(rbx), ax)?;
    code.mov(dword_ptr(rbx), eax)?;
    code.mov(qword_ptr(rbx), rax)
}

/// Touches random addresses: `base`, with the bits of `mask` changed at random.
fn touch_somewhere(guest: &mut Guest, times: u32, base: u64, mask: u64) -> Assembled {
    guest.repeat(times, |guest| {
        guest.random()?;
        guest.code.mov(rbx, mask)?;
        guest.code.and(rbx, rax)?;
        guest.code.mov(rax, base)?;
        guest.code.add(rbx, rax)?;
        touch(guest)
    })
}

#[test]
fn the_registers_of_devices_take_everything() {
    // Three devices and a page that has none.
    if let Some(code) = run(|guest| touch_somewhere(guest, 10_000, HOLE.start, 0x3fff)) {
        assert_eq!(code, DONE.into());
    }
}

#[test]
fn addresses_without_memory_take_everything() {
    let touch = |guest: &mut Guest| {
        touch_somewhere(guest, 3000, HOLE.start, 0x1fff_ffff)?;
        // Not the interrupt controller's.
        touch_somewhere(guest, 2000, HOLE.start + 0x2000_0000, 0x0dff_ffff)?;
        // Behind the memory, and above 4 GiB.
        touch_somewhere(guest, 2000, 0x1000_0000, 0x7fff_ffff)?;
        touch_somewhere(guest, 2000, 0x1_0000_0000, 0xefff_ffff)
    };
    if let Some(code) = run(touch) {
        assert_eq!(code, DONE.into());
    }
}

/// The last bytes of memory together with what has none behind it, and the same of a device.
#[test]
fn accesses_across_a_border_take_everything() {
    let touch_borders = |guest: &mut Guest| {
        for border in [32u64 << 20, HOLE.start, HOLE.start + 0x1000, HOLE.start + 0x3000, HOLE.end()] {
            guest.code.mov(rbx, border - 9)?;
            guest.repeat(10, |guest| {
                touch(guest)?;
                guest.code.inc(rbx)
            })?;
        }
        Ok(())
    };
    if let Some(code) = run(touch_borders) {
        assert_eq!(code, DONE.into());
    }
}

#[test]
fn strings_to_devices_take_everything() {
    let copy = |guest: &mut Guest| {
        for (from, to) in [(CODE.into(), HOLE.start), (HOLE.start, BUFFERS), (HOLE.start, HOLE.start + 0x800)]
        {
            for times in [1u32, 255, 0x3000] {
                guest.code.mov(rsi, from)?;
                guest.code.mov(rdi, to)?;
                guest.code.mov(ecx, times)?;
                guest.code.rep().movsb()?;
            }
        }
        Ok(())
    };
    if let Some(code) = run(copy) {
        assert_eq!(code, DONE.into());
    }
}

#[test]
fn all_ports_take_everything() {
    let use_ports = |guest: &mut Guest| {
        let (mut next, mut end) = (guest.code.create_label(), guest.code.create_label());
        let code = &mut guest.code;
        code.xor(edx, edx)?;
        code.set_label(&mut next)?;
        code.in_(al, dx)?;
        code.in_(ax, dx)?;
        code.in_(eax, dx)?;
        code.cmp(edx, u32::from(QUIT_PORT))?;
        code.je(end)?;
        code.out(dx, al)?;
        code.out(dx, ax)?;
        code.out(dx, eax)?;
        code.set_label(&mut end)?;
        code.inc(edx)?;
        // Where a PC has its devices, every port; behind them one of seven.
        code.cmp(edx, 0x400)?;
        code.jb(next)?;
        code.add(edx, 6)?;
        code.cmp(edx, 0x1_0000)?;
        code.jb(next)
    };
    if let Some(code) = run(use_ports) {
        assert_eq!(code, DONE.into());
    }
}

#[test]
fn strings_to_ports_take_everything() {
    let use_ports = |guest: &mut Guest| {
        for port in [TEXT_PORT, QUIT_PORT - 1, 0x3f8, 0xffff] {
            guest.code.mov(edx, u32::from(port))?;
            for times in [0u64, 1, 0x8000] {
                guest.code.mov(rsi, u64::from(CODE))?;
                guest.code.mov(rcx, times)?;
                guest.code.rep().outsb()?;
                guest.code.mov(rcx, times / 4)?;
                guest.code.rep().outsd()?;
                guest.code.mov(rdi, BUFFERS)?;
                guest.code.mov(rcx, times)?;
                guest.code.rep().insb()?;
            }
        }
        Ok(())
    };
    if let Some(code) = run(use_ports) {
        assert_eq!(code, DONE.into());
    }
}
