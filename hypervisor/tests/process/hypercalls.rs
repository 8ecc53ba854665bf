//! Hypercalls with arguments that no kernel passes.

use hermit_interface::exit::{QUIT_PORT, STATUS_PORT};
use hermit_interface::machine::HOLE;
use hermit_interface::process::{CALL, OUT, READ, WRITE};
use iced_x86::code_asm::{AsmRegister64, r8, r9, r10, r12, r13, rax, rdi, rdx, rsi};

use crate::guest::{Assembled, GuestBuilder};
use crate::host::{Host, Outcome};
use crate::virtio::Driver;

/// Exit status of a guest that has executed all its instructions.
const DONE: u8 = 42;

/// Number of hypercalls of a kind.
const TIMES: u32 = 3000;

/// Runs a guest, and returns its output.
#[track_caller]
fn run(assemble: impl FnOnce(&mut GuestBuilder) -> Assembled) -> Outcome {
    let image = GuestBuilder::image(DONE, |guest| {
        guest.code.mov(r13, 1u64)?;
        assemble(guest)
    });
    let outcome = Outcome::from(Host::new(&image, &[]).command().output().unwrap());
    assert_eq!(outcome.code, Some(DONE.into()), "{outcome:?}");
    assert!(!outcome.errors.contains("panicked"), "{outcome:?}");
    outcome
}

/// Puts a pseudorandom number into a register, from Knuth's MMIX linear congruential generator without its
/// weak low bits. Changes rax.
fn random(guest: &mut GuestBuilder, register: AsmRegister64) -> Assembled {
    let code = &mut guest.code;
    code.mov(rax, 6_364_136_223_846_793_005u64)?;
    code.imul_2(r13, rax)?;
    code.mov(rax, 1_442_695_040_888_963_407u64)?;
    code.add(r13, rax)?;
    code.mov(register, r13)?;
    code.shr(register, 20u32)
}

/// Makes hypercalls with random arguments, after `prepare` has replaced some of them.
fn call_often(guest: &mut GuestBuilder, prepare: impl FnOnce(&mut GuestBuilder) -> Assembled) -> Assembled {
    Driver(guest).repeat(TIMES, |driver| {
        let guest = &mut *driver.0;
        [rdi, rsi, rdx, r10, r8, r9].into_iter().try_for_each(|register| random(guest, register))?;
        prepare(guest)?;
        guest.code.mov(rax, CALL)?;
        guest.code.syscall()
    })
}

#[test]
fn guest_survives_random_hypercalls() {
    run(|guest| {
        call_often(guest, |_| Ok(()))?;
        // Random operations, including one that does not exist.
        call_often(guest, |guest| {
            guest.code.and(rdi, 3)?;
            // Makes the port invalid, because otherwise the guest would print to text ports at random.
            guest.code.or(rsi, 1 << 30)
        })
    });
}

/// Accesses the registers of three devices, and a page without a device.
fn access_registers(guest: &mut GuestBuilder, operation: u64, size: u64) -> Assembled {
    call_often(guest, |guest| {
        guest.code.mov(rdi, operation)?;
        guest.code.and(rsi, 0x3fff)?;
        guest.code.mov(rdx, HOLE.start)?;
        guest.code.add(rsi, rdx)?;
        guest.code.mov(rdx, size)
    })
}

#[test]
fn guest_survives_random_accesses_to_device_registers() {
    let sizes = [1, 2, 4, 8, 3];
    let mut all = sizes.into_iter().flat_map(|size| [READ, WRITE].map(|operation| (operation, size)));
    run(|guest| all.try_for_each(|(operation, size)| access_registers(guest, operation, size)));
}

/// Writes a byte to each port up to 0x3ff, where a PC has its devices, and to each 64th port. Omits ports
/// that would end the guest.
#[test]
fn guest_survives_accesses_to_ports() {
    let outcome = run(|guest| {
        Driver(guest).repeat(0x3ff, |driver| {
            let guest = &mut *driver.0;
            let mut next = guest.code.create_label();
            write_port(guest, 6)?;
            for port in [QUIT_PORT, STATUS_PORT] {
                guest.code.cmp(r12, i32::from(port))?;
                guest.code.je(next)?;
            }
            write_port(guest, 0)?;
            guest.code.set_label(&mut next)?;
            guest.code.nop()
        })
    });
    assert_eq!((&*outcome.text, &*outcome.errors), ("!", "!"));
}

/// Writes a character to the port whose number is r12 shifted left.
fn write_port(guest: &mut GuestBuilder, shift: u32) -> Assembled {
    let code = &mut guest.code;
    code.mov(rsi, r12)?;
    code.shl(rsi, shift)?;
    code.or(rsi, 1 << 16)?;
    code.mov(rdi, OUT)?;
    code.mov(rdx, u64::from(b'!'))?;
    code.mov(rax, CALL)?;
    code.syscall()
}
