//! Processors that do what no kernel has them do.

use iced_x86::code_asm::{dword_ptr, eax, rax, rbx, rdi};

use crate::guest::{Assembled, CODE, Guest, ZEROS};
use crate::host::{Host, NO_STATUS, TIMED_OUT};

/// A status by which a test knows that the guest came to its end.
const DONE: u8 = 42;

/// Register of the local APIC that sends interrupts to other processors.
const COMMAND: u64 = 0xfee0_0300;

fn run(write: impl FnOnce(&mut Guest) -> Assembled) -> Option<i32> {
    Host::new().map(|host| host.run(&Guest::image(DONE, write)))
}

#[test]
fn a_guest_that_behaves_ends_with_its_status() {
    if let Some(code) = run(|_| Ok(())) {
        assert_eq!(code, DONE.into());
    }
}

#[test]
fn an_undefined_instruction_without_a_handler_resets_the_machine() {
    if let Some(code) = run(|guest| guest.code.ud2()) {
        assert_eq!(code, NO_STATUS);
    }
}

fn ends_after_a_jump(address: u64) {
    let jump = |guest: &mut Guest| {
        guest.code.mov(rax, address)?;
        guest.code.jmp(rax)
    };
    if let Some(code) = run(jump) {
        assert_eq!(code, NO_STATUS, "{address:#x}");
    }
}

#[test]
fn a_jump_to_nowhere_resets_the_machine() {
    [0x7fff_ffff_f000, 0xffff_ffff_ffff_f000, 1 << 63].into_iter().for_each(ends_after_a_jump);
}

/// Instructions cannot be fetched from device registers.
#[test]
fn a_jump_to_a_device_ends_the_guest() {
    [0xd000_0000, 0xd000_0050, 0xfee0_0000, 0x1_8000_0000].into_iter().for_each(ends_after_a_jump);
}

#[test]
fn a_guest_without_page_tables_ends() {
    let forget = |guest: &mut Guest| {
        guest.code.mov(rax, 0x7fff_f000u64)?;
        guest.code.mov(iced_x86::code_asm::cr3, rax)
    };
    if let Some(code) = run(forget) {
        assert_eq!(code, NO_STATUS);
    }
}

#[test]
fn a_guest_that_waits_for_nothing_is_ended() {
    let Some(mut host) = Host::new() else { return };
    host.timeout(1);
    let sleep = |guest: &mut Guest| {
        guest.code.cli()?;
        guest.code.hlt()
    };
    assert_eq!(host.run(&Guest::image(DONE, sleep)), TIMED_OUT);
}

#[test]
fn a_guest_that_runs_in_circles_is_ended() {
    let Some(mut host) = Host::new() else { return };
    host.timeout(1);
    let circle = |guest: &mut Guest| {
        let mut here = guest.code.create_label();
        guest.code.set_label(&mut here)?;
        guest.code.jmp(here)
    };
    assert_eq!(host.run(&Guest::image(DONE, circle)), TIMED_OUT);
}

/// INIT and SIPI as SDM volume 3, section 9.4.4.1 has them, at a page; then the first processor waits a while.
fn start_second(guest: &mut Guest, page: u32) -> Assembled {
    guest.write32(COMMAND + 0x10, 1 << 24)?;
    for command in [0x4500, 0x4600 | page >> 12, 0x4600 | page >> 12] {
        guest.write32(COMMAND, command)?;
        guest.repeat(20_000, |_| Ok(()))?;
    }
    guest.repeat(200_000, |_| Ok(()))
}

#[test]
fn a_second_processor_in_garbage_harms_nobody() {
    // Zeros, 64-bit code as seen in real mode, page tables, and no memory at all.
    for page in [ZEROS, CODE, 0x2000, 0xf_f000] {
        let Some(mut host) = Host::new() else { return };
        host.option("--cpus=2");
        let image = Guest::image(DONE, |guest| start_second(guest, page));
        let code = host.run(&image);
        // What the second one does is its own affair, even to reset the machine.
        assert!([DONE.into(), NO_STATUS].contains(&code), "{page:#x}: {code}");
    }
}

#[test]
fn processors_that_stop_one_another_are_ended() {
    let Some(mut host) = Host::new() else { return };
    host.option("--cpus=4");
    host.timeout(2);
    // INIT to all, itself included.
    let image = Guest::image(DONE, |guest| guest.write32(COMMAND, 0x8_4500));
    let code = host.run(&image);
    assert!([DONE.into(), NO_STATUS, TIMED_OUT].contains(&code), "{code}");
}

#[test]
fn noise_in_all_memory_harms_nobody() {
    let fill = |guest: &mut Guest| {
        // From 1 MiB to 32 MiB: the image, its page tables, the boot information.
        guest.code.mov(rdi, 1u64 << 20)?;
        guest.repeat((31 << 20) / 256, |guest| {
            guest.random()?;
            for offset in (0..256).step_by(8) {
                guest.code.mov(iced_x86::code_asm::qword_ptr(rdi + offset), rax)?;
            }
            guest.code.add(rdi, 256)
        })
    };
    if let Some(code) = run(fill) {
        assert_eq!(code, DONE.into());
    }
}

#[test]
fn noise_in_the_interrupt_controller_harms_nobody() {
    let Some(mut host) = Host::new() else { return };
    host.option("--cpus=2");
    host.timeout(5);
    let noise = |guest: &mut Guest| {
        guest.repeat(5000, |guest| {
            guest.random()?;
            guest.code.mov(rbx, 0xffcu64)?;
            guest.code.and(rbx, rax)?;
            guest.code.mov(rdi, 0xfee0_0000u64)?;
            guest.code.add(rbx, rdi)?;
            guest.code.mov(dword_ptr(rbx), eax)?;
            guest.code.mov(eax, dword_ptr(rbx))
        })
    };
    let code = host.run(&Guest::image(DONE, noise));
    assert!([DONE.into(), NO_STATUS, TIMED_OUT].contains(&code), "{code}");
}
