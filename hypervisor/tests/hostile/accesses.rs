//! Accesses to I/O ports, to device registers, and to physical addresses without memory.

use hermit_interface::exit::QUIT_PORT;
use hermit_interface::machine::{ERROR_TEXT_PORT, HOLE, TEXT_PORT};
use iced_x86::code_asm::{
    al, ax, byte_ptr, dword_ptr, dx, eax, ecx, edx, qword_ptr, r13, rax, rbx, rcx, rdi, rsi, word_ptr,
};

use crate::guest::{Assembled, BUFFERS, CODE, GuestBuilder};
use crate::host::Host;

/// Exit status of a guest that has executed all its instructions.
const DONE: u8 = 42;

fn run(assemble: impl FnOnce(&mut GuestBuilder) -> Assembled) -> Option<i32> {
    let mut host = Host::new()?;
    let disk = host.disk("disk", 8);
    host.option("--block");
    host.option(&disk.name());
    Some(host.run(&GuestBuilder::image(DONE, assemble)))
}

/// Reads and writes 1, 2, 4 and 8 bytes at the address in rbx.
fn access(guest: &mut GuestBuilder) -> Assembled {
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

/// Accesses random addresses: `base` plus random bits of `mask`.
fn access_random(guest: &mut GuestBuilder, times: u32, base: u64, mask: u64) -> Assembled {
    guest.repeat(times, |guest| {
        guest.random()?;
        guest.code.mov(rbx, mask)?;
        guest.code.and(rbx, rax)?;
        guest.code.mov(rax, base)?;
        guest.code.add(rbx, rax)?;
        access(guest)
    })
}

#[test]
fn guest_survives_random_accesses_to_device_registers() {
    // The registers of three devices, and a page without a device.
    if let Some(code) = run(|guest| access_random(guest, 10_000, HOLE.start, 0x3fff)) {
        assert_eq!(code, DONE.into());
    }
}

#[test]
fn guest_survives_random_accesses_outside_memory() {
    let access_all = |guest: &mut GuestBuilder| {
        access_random(guest, 3000, HOLE.start, 0x1fff_ffff)?;
        // Below the interrupt controllers.
        access_random(guest, 2000, HOLE.start + 0x2000_0000, 0x0dff_ffff)?;
        // After the end of memory, and above 4 GiB.
        access_random(guest, 2000, 0x1000_0000, 0x7fff_ffff)?;
        access_random(guest, 2000, 0x1_0000_0000, 0xefff_ffff)
    };
    if let Some(code) = run(access_all) {
        assert_eq!(code, DONE.into());
    }
}

/// Accesses that start in memory or in a device and end after it.
#[test]
fn guest_survives_accesses_across_boundaries() {
    let access_boundaries = |guest: &mut GuestBuilder| {
        for boundary in [32u64 << 20, HOLE.start, HOLE.start + 0x1000, HOLE.start + 0x3000, HOLE.end()] {
            guest.code.mov(rbx, boundary - 9)?;
            guest.repeat(10, |guest| {
                access(guest)?;
                guest.code.inc(rbx)
            })?;
        }
        Ok(())
    };
    if let Some(code) = run(access_boundaries) {
        assert_eq!(code, DONE.into());
    }
}

#[test]
fn guest_survives_string_moves_to_device_registers() {
    let copy = |guest: &mut GuestBuilder| {
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
fn guest_survives_accesses_to_all_ports() {
    let use_ports = |guest: &mut GuestBuilder| {
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
        // Every port up to 0x3ff, where a PC has its devices; above that, every seventh port.
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
fn guest_survives_string_io_to_ports() {
    let use_ports = |guest: &mut GuestBuilder| {
        for port in [TEXT_PORT, ERROR_TEXT_PORT, QUIT_PORT - 1, 0x3f8, 0xffff] {
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
