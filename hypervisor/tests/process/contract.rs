//! The contract of [`hermit_interface::process`]: ports, device registers, memory, interrupts, CPUs, timers.
//!
//! Each test assembles a guest that uses one part of the contract, without a kernel. The guest exits with the
//! status [`DONE`] when it has reached its end, so the status or the output shows any deviation.

use std::mem::offset_of;

use hermit_interface::exit::STATUS_PORT;
use hermit_interface::machine::{ERROR_TEXT_PORT, HOLE, TEXT_PORT};
use hermit_interface::process::{DEVICE, INTERRUPT, OUT, READ, SharedCpu, TIMER, WRITE, queue_eventfd};
use iced_x86::code_asm::{dword_ptr, eax, qword_ptr, r12, r15, rax, rbx, rcx, rdi, rsp};

use crate::guest::{Assembled, FREE, GuestBuilder, Operand};
use crate::host::{Outcome, run};

/// Exit status of a guest that has reached its end.
const DONE: u8 = 42;

/// Registers of the entropy device, which has line 1.
const ENTROPY: u64 = HOLE.start + 0x1000;

/// Unused address of the range for mappings.
const ADDRESS: Operand = Operand::Own(0);

const MAP: i32 = libc::MAP_SHARED | libc::MAP_FIXED;

#[track_caller]
fn works(options: &[&'static str], write: impl FnOnce(&mut GuestBuilder) -> Assembled) -> Outcome {
    let outcome = run(&GuestBuilder::image(DONE, write), options);
    assert_eq!((outcome.code, &*outcome.errors), (Some(DONE.into()), ""));
    outcome
}

#[test]
fn text_port_writes_to_standard_output() {
    let outcome = works(&[], |guest| {
        let words = b"abcdefghijklmnopqrstuvwxyz012345".as_chunks().0;
        let [first, second, third, fourth] =
            [0, 1, 2, 3].map(|index| u64::from_le_bytes(words[index]).into());
        guest.hypercall([
            OUT.into(),
            (u64::from(TEXT_PORT) | 32 << 16).into(),
            first,
            second,
            third,
            fourth,
        ])?;
        guest.out(TEXT_PORT, u64::from(b'\n').into(), 1)
    });
    assert_eq!(outcome.text, "abcdefghijklmnopqrstuvwxyz012345\n");
}

#[test]
fn error_text_port_writes_to_standard_error() {
    let outcome = run(
        &GuestBuilder::image(DONE, |guest| {
            guest.out(TEXT_PORT, u64::from(b'o').into(), 1)?;
            guest.out(ERROR_TEXT_PORT, u64::from(b'e').into(), 1)
        }),
        &[],
    );
    assert_eq!((outcome.code, &*outcome.text, &*outcome.errors), (Some(DONE.into()), "o", "e"));
}

#[test]
fn device_registers_are_read_and_written() {
    works(&[], |guest| {
        guest.hypercall([READ.into(), ENTROPY.into(), 4.into()])?;
        guest.expect(i32::from_le_bytes(*b"virt"), 1)?;
        guest.hypercall([WRITE.into(), (ENTROPY + 0x70).into(), 4.into(), 3.into()])?;
        guest.expect(0, 2)?;
        guest.hypercall([READ.into(), (ENTROPY + 0x70).into(), 4.into()])?;
        guest.expect(3, 3)?;
        // An address without a device.
        guest.hypercall([READ.into(), (HOLE.start + 0xf000).into(), 1.into()])?;
        guest.expect(0xff, 4)?;
        guest.hypercall([READ.into(), ENTROPY.into(), 3.into()])?;
        guest.expect(-libc::EINVAL, 5)?;
        guest.hypercall([7.into()])?;
        guest.expect(-libc::EINVAL, 6)?;
        guest.hypercall([OUT.into(), (u64::from(STATUS_PORT) | 33 << 16).into()])?;
        guest.expect(-libc::EINVAL, 7)
    });
}

#[test]
fn memory_is_mapped_protected_and_unmapped() {
    works(&[], |guest| {
        guest.put(FREE, &[7, 0, 0, 0])?;
        for (access, flags) in [(0, MAP), (1, MAP), (5, MAP), (3, MAP | libc::MAP_POPULATE)] {
            let physical = i64::from(FREE).cast_unsigned();
            guest.call(
                libc::SYS_mmap,
                [ADDRESS, 0x1000.into(), access.into(), flags.into(), 0.into(), physical.into()],
            )?;
            guest.set(rcx, ADDRESS)?;
            guest.code.sub(rax, rcx)?;
            guest.expect(0, 1)?;
        }
        guest.set(rcx, ADDRESS)?;
        guest.code.mov(rax, qword_ptr(rcx))?;
        guest.expect(7, 2)?;
        for access in [0, 5, 1, 3] {
            guest.call(libc::SYS_mprotect, [ADDRESS, 0x1000.into(), access.into()])?;
            guest.expect(0, 3)?;
        }
        guest.call(libc::SYS_munmap, [ADDRESS, 0x1000.into()])?;
        guest.expect(0, 4)
    });
}

/// The limit of the address space bounds the host's page tables for mappings.
#[test]
fn mapped_address_space_is_limited() {
    works(&[], |guest| {
        let mut again = guest.code.create_label();
        guest.set(rbx, ADDRESS)?;
        guest.code.mov(r12, 100_u64)?;
        guest.code.set_label(&mut again)?;
        let address = Operand::Register(rbx);
        guest.call(libc::SYS_mmap, [address, (16 << 20).into(), 3.into(), MAP.into(), 0.into(), 0.into()])?;
        guest.code.add(rbx, 16 << 20)?;
        guest.code.dec(r12)?;
        guest.code.jne(again)?;
        guest.expect(-libc::ENOMEM, 1)
    });
}

/// Installs a handler that exits with `status`, and unblocks the signal. The handler works only on the boot
/// CPU, because it needs r15.
fn handle(guest: &mut GuestBuilder, signal: u32, status: u8) -> Assembled {
    let (mut handler, mut over) = (guest.code.create_label(), guest.code.create_label());
    guest.code.jmp(over)?;
    guest.code.set_label(&mut handler)?;
    guest.exit(i32::from(status))?;
    guest.code.set_label(&mut over)?;
    guest.code.lea(rax, qword_ptr(handler))?;
    // `struct kernel_sigaction`: handler, flags, restorer, mask.
    guest.code.mov(qword_ptr(r15 + FREE), rax)?;
    guest.put(FREE + 8, &0x0400_0000_u64.to_le_bytes())?;
    guest.code.mov(qword_ptr(r15 + FREE + 16), rax)?;
    guest.call(
        libc::SYS_rt_sigaction,
        [u64::from(signal).into(), Operand::Physical(FREE), 0.into(), 8.into()],
    )?;
    guest.expect(0, 101)?;
    guest.put(FREE + 32, &(1_u64 << (signal - 1)).to_le_bytes())?;
    let unblock = libc::SIG_UNBLOCK.into();
    guest.call(libc::SYS_rt_sigprocmask, [unblock, Operand::Physical(FREE + 32), 0.into(), 8.into()])?;
    guest.expect(0, 102)
}

/// Initialises the entropy device, makes a buffer available, and writes to the event of its queue.
fn request_entropy(guest: &mut GuestBuilder) -> Assembled {
    const DESCRIPTORS: i32 = FREE + 0x1000;
    const AVAILABLE: i32 = FREE + 0x2000;
    const USED: i32 = FREE + 0x3000;
    let mut set = |register: u64, value: i32| {
        guest.hypercall([WRITE.into(), (ENTROPY + register).into(), 4.into(), value.into()])
    };
    // Virtio 1.2, sections 3.1.1 and 4.2.2: status, VIRTIO_F_VERSION_1, queue 0 with 8 descriptors.
    for (register, value) in [(0x70, 3), (0x24, 1), (0x20, 1), (0x70, 11), (0x30, 0), (0x38, 8)] {
        set(register, value)?;
    }
    for (register, value) in [(0x80, DESCRIPTORS), (0x90, AVAILABLE), (0xa0, USED), (0x44, 1), (0x70, 15)] {
        set(register, value)?;
    }
    // A device-writable buffer of 16 bytes, and its index in the available ring.
    guest.put(DESCRIPTORS, &(FREE + 0x4000).to_le_bytes())?;
    guest.put(DESCRIPTORS + 8, &[16, 0, 0, 0, 2, 0, 0, 0])?;
    guest.put(AVAILABLE + 2, &[1, 0, 0, 0])?;
    guest.put(FREE + 0x5000, &1_u64.to_le_bytes())?;
    let event = u64::from(queue_eventfd(1, 0)).into();
    guest.call(libc::SYS_write, [event, Operand::Physical(FREE + 0x5000), 8.into()])?;
    guest.expect(8, 103)
}

/// Waits until the device has raised its line and written to the buffer.
fn check_entropy(guest: &mut GuestBuilder) -> Assembled {
    let raised = i32::try_from(offset_of!(SharedCpu, raised)).unwrap();
    guest.wait_for(raised)?;
    guest.code.mov(eax, dword_ptr(r15 + raised))?;
    guest.expect(2, 1)?;
    guest.wait_for(FREE + 0x4000)
}

#[test]
fn device_interrupt_wakes_sleeping_cpu() {
    let idle = i32::try_from(offset_of!(SharedCpu, idle)).unwrap();
    works(&[], |guest| {
        guest.put(idle, &[1])?;
        request_entropy(guest)?;
        let wait = libc::FUTEX_WAIT.into();
        guest.call(libc::SYS_futex, [Operand::Physical(idle), wait, 1.into(), 0.into()])?;
        check_entropy(guest)?;
        guest.code.mov(eax, dword_ptr(r15 + idle))?;
        guest.expect(0, 2)
    });
}

#[test]
fn device_interrupt_signals_running_cpu() {
    let image = GuestBuilder::image(1, |guest| {
        handle(guest, DEVICE, DONE)?;
        request_entropy(guest)?;
        guest.spin()
    });
    assert_eq!(run(&image, &[]).code, Some(DONE.into()));
}

#[test]
fn a_queue_without_a_descriptor_is_notified_by_a_register() {
    works(&[], |guest| {
        request_entropy(guest)?;
        guest.hypercall([WRITE.into(), (ENTROPY + 0x50).into(), 4.into(), 0.into()])?;
        guest.expect(0, 3)?;
        check_entropy(guest)
    });
}

#[test]
fn timers_expire() {
    let timer = i32::try_from(offset_of!(SharedCpu, timer)).unwrap();
    let image = GuestBuilder::image(1, |guest| {
        handle(guest, TIMER, DONE)?;
        // `struct itimerspec`: once, after a millisecond.
        guest.put(FREE + 0x118, &1_000_000_u64.to_le_bytes())?;
        guest.code.mov(eax, dword_ptr(r15 + timer))?;
        guest.call(
            libc::SYS_timer_settime,
            [Operand::Register(rax), 0.into(), Operand::Physical(FREE + 0x100), 0.into()],
        )?;
        guest.spin()
    });
    assert_eq!(run(&image, &[]).code, Some(DONE.into()));
}

#[test]
fn all_cpus_start_and_interrupt_each_other() {
    const CPUS: usize = 64;
    works(&["--cpus", "64"], |guest| {
        let (mut entry, mut over) = (guest.code.create_label(), guest.code.create_label());
        guest.code.jmp(over)?;
        // Entry point of the other CPUs. The argument is the address of a word that each of them sets.
        guest.code.set_label(&mut entry)?;
        guest.code.push(rdi)?;
        guest.hypercall([READ.into(), ENTROPY.into(), 4.into()])?;
        guest.code.pop(rdi)?;
        guest.code.mov(dword_ptr(rdi), eax)?;
        guest.sleep_while_unchanged()?;
        guest.code.set_label(&mut over)?;
        for number in 1..CPUS {
            let offset = |field: usize| i32::try_from(number * size_of::<SharedCpu>() + field).unwrap();
            let own = FREE + 0x10000 + i32::try_from(number).unwrap() * 0x400;
            guest.code.lea(rax, qword_ptr(entry))?;
            guest.code.mov(qword_ptr(r15 + offset(offset_of!(SharedCpu, entry))), rax)?;
            guest.code.lea(rax, qword_ptr(r15 + own))?;
            guest.code.mov(qword_ptr(r15 + offset(offset_of!(SharedCpu, stack))), rax)?;
            guest.code.mov(qword_ptr(r15 + offset(offset_of!(SharedCpu, argument))), rax)?;
            let started = offset(offset_of!(SharedCpu, started));
            guest.put(started, &[1])?;
            let wake = libc::FUTEX_WAKE.into();
            guest.call(libc::SYS_futex, [Operand::Physical(started), wake, 1.into()])?;
            guest.wait_for(own)?;
        }
        // The interrupt is blocked: the test checks that tgkill succeeds.
        guest.code.mov(eax, dword_ptr(r15 + i32::try_from(offset_of!(SharedCpu, thread)).unwrap()))?;
        guest.code.push(rax)?;
        guest.code.mov(
            eax,
            dword_ptr(r15 + i32::try_from(size_of::<SharedCpu>() + offset_of!(SharedCpu, thread)).unwrap()),
        )?;
        guest.code.mov(rcx, rax)?;
        guest.code.pop(rax)?;
        guest.code.mov(rbx, rcx)?;
        let (own, other) = (Operand::Register(rax), Operand::Register(rbx));
        guest.call(libc::SYS_tgkill, [own, other, u64::from(INTERRUPT).into()])?;
        guest.expect(0, 4)?;
        guest.code.lea(rsp, qword_ptr(r15 + FREE))
    });
}

#[test]
fn control_characters_of_a_guest_are_passed_or_visible() {
    let image = GuestBuilder::image(0, |guest| {
        // ESC ] 0 ; x BEL sets a terminal's title.
        guest.out(TEXT_PORT, i32::from_le_bytes(*b"\x1b]0;").into(), 4)?;
        guest.out(TEXT_PORT, i32::from_le_bytes(*b"x\x07\r\n").into(), 4)
    });
    for (options, text) in [
        (&[][..], "\x1b]0;x\x07\r\n"),
        (&["--console=raw"], "\x1b]0;x\x07\r\n"),
        (&["--console=escaped"], "^[]0;x^G\r\n"),
    ] {
        let outcome = run(&image, options);
        assert_eq!((outcome.code, outcome.text.as_str()), (Some(0), text), "{options:?}");
    }
}
