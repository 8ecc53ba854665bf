//! vCPUs in states that no kernel causes.

use hermit_interface::machine::TEXT_PORT;
use iced_x86::code_asm::{al, dword_ptr, dx, eax, ecx, edx, rax, rbx, rcx, rdi};

use crate::guest::{Assembled, CODE, GuestBuilder, ZEROS};
use crate::host::{Host, NO_STATUS, TIMED_OUT};
use crate::stalled;

/// Exit status of a guest that has executed all its instructions.
const DONE: u8 = 42;

/// Interrupt command register of the local APIC.
const ICR: u64 = 0xfee0_0300;

fn run(assemble: impl FnOnce(&mut GuestBuilder) -> Assembled) -> Option<i32> {
    Host::new().map(|host| host.run(&GuestBuilder::image(DONE, assemble)))
}

#[test]
fn well_behaved_guest_exits_with_its_status() {
    if let Some(code) = run(|_| Ok(())) {
        assert_eq!(code, DONE.into());
    }
}

#[test]
fn triple_fault_by_an_undefined_instruction_ends_the_guest() {
    if let Some(code) = run(|guest| guest.code.ud2()) {
        assert_eq!(code, NO_STATUS);
    }
}

/// Exits with `status` if the CPUID leaf has any of these bits in ecx (if `in_ecx`) or in eax.
fn expect_no_cpuid(guest: &mut GuestBuilder, leaf: u32, bits: u32, in_ecx: bool, status: u8) -> Assembled {
    let mut absent = guest.code.create_label();
    guest.code.mov(eax, leaf)?;
    guest.code.xor(ecx, ecx)?;
    guest.code.cpuid()?;
    guest.code.test(if in_ecx { ecx } else { eax }, bits)?;
    guest.code.je(absent)?;
    guest.exit(status)?;
    guest.code.set_label(&mut absent)?;
    guest.code.nop()
}

#[test]
fn cpuid_offers_neither_nested_virtualisation_nor_counters_nor_paravirtual_features() {
    let probe = |guest: &mut GuestBuilder| {
        expect_no_cpuid(guest, 1, 1 << 5 | 1 << 15, true, 1)?;
        expect_no_cpuid(guest, 0x8000_0001, 1 << 2, true, 2)?;
        expect_no_cpuid(guest, 0xa, 0xff, false, 3)?;
        // All bits except the two of the clock.
        expect_no_cpuid(guest, 0x4000_0001, !(1 << 3 | 1 << 24), false, 4)
    };
    if let Some(code) = run(probe) {
        assert_eq!(code, DONE.into());
    }
}

/// MSR_KVM_ASYNC_PF_EN exists only for guests to which CPUID offers it.
#[test]
fn hidden_paravirtual_msr_is_refused() {
    let write = |guest: &mut GuestBuilder| {
        guest.code.mov(ecx, 0x4b56_4d02_u32)?;
        guest.code.xor(eax, eax)?;
        guest.code.xor(edx, edx)?;
        guest.code.wrmsr()
    };
    if let Some(code) = run(write) {
        assert_eq!(code, NO_STATUS);
    }
}

/// IA32_PAT, IA32_MTRRCAP, IA32_SPEC_CTRL, IA32_TSC and IA32_MISC_ENABLE, which the kernel does not use.
#[test]
fn unused_msr_is_refused() {
    for msr in [0x277_u32, 0xfe, 0x48, 0x10, 0x1a0] {
        let read = |guest: &mut GuestBuilder| {
            guest.code.mov(ecx, msr)?;
            guest.code.rdmsr()
        };
        if let Some(code) = run(read) {
            assert_eq!(code, NO_STATUS, "{msr:#x}");
        }
    }
}

/// IA32_APIC_BASE, IA32_TSC_DEADLINE, IA32_EFER, IA32_FS_BASE and IA32_GS_BASE.
#[test]
fn msrs_of_the_kernel_are_accessible() {
    let access = |guest: &mut GuestBuilder| {
        for msr in [0x1b_u32, 0x6e0, 0xc000_0080, 0xc000_0100, 0xc000_0101] {
            guest.code.mov(ecx, msr)?;
            guest.code.rdmsr()?;
            guest.code.wrmsr()?;
        }
        Ok(())
    };
    if let Some(code) = run(access) {
        assert_eq!(code, DONE.into());
    }
}

fn assert_jump_ends_the_guest(address: u64) {
    let jump = |guest: &mut GuestBuilder| {
        guest.code.mov(rax, address)?;
        guest.code.jmp(rax)
    };
    if let Some(code) = run(jump) {
        assert_eq!(code, NO_STATUS, "{address:#x}");
    }
}

#[test]
fn jump_to_an_unmapped_address_ends_the_guest() {
    [0x7fff_ffff_f000, 0xffff_ffff_ffff_f000, 1 << 63].into_iter().for_each(assert_jump_ends_the_guest);
}

/// KVM cannot emulate an instruction fetch from device registers.
#[test]
fn jump_to_device_registers_ends_the_guest() {
    [0xd000_0000, 0xd000_0050, 0xfee0_0000, 0x1_8000_0000].into_iter().for_each(assert_jump_ends_the_guest);
}

#[test]
fn page_table_root_outside_memory_ends_the_guest() {
    let load_cr3 = |guest: &mut GuestBuilder| {
        guest.code.mov(rax, 0x7fff_f000u64)?;
        guest.code.mov(iced_x86::code_asm::cr3, rax)
    };
    if let Some(code) = run(load_cr3) {
        assert_eq!(code, NO_STATUS);
    }
}

#[test]
fn guest_halted_with_interrupts_disabled_times_out() {
    let Some(mut host) = Host::new() else { return };
    host.timeout(1);
    let halt = |guest: &mut GuestBuilder| {
        guest.code.cli()?;
        guest.code.hlt()
    };
    assert_eq!(host.run(&GuestBuilder::image(DONE, halt)), TIMED_OUT);
}

#[test]
fn guest_in_an_endless_loop_times_out() {
    let Some(mut host) = Host::new() else { return };
    host.timeout(1);
    assert_eq!(host.run(&GuestBuilder::image(DONE, GuestBuilder::spin)), TIMED_OUT);
}

#[test]
fn guest_whose_output_no_one_reads_times_out() {
    let Some(mut host) = Host::new() else { return };
    host.timeout(1);
    let print = |guest: &mut GuestBuilder| {
        guest.code.mov(edx, u32::from(TEXT_PORT))?;
        guest.code.out(dx, al)?;
        guest.spin()
    };
    stalled::ends_by_the_time_limit(&mut host.command(&GuestBuilder::image(DONE, print)));
}

/// Starts the second vCPU at a page with INIT and two SIPIs (SDM 3A §9.4.4.1). Then the first vCPU waits.
fn start_second_vcpu(guest: &mut GuestBuilder, page: u32) -> Assembled {
    guest.write32(ICR + 0x10, 1 << 24)?;
    for command in [0x4500, 0x4600 | page >> 12, 0x4600 | page >> 12] {
        guest.write32(ICR, command)?;
        guest.repeat(20_000, |_| Ok(()))?;
    }
    guest.repeat(200_000, |_| Ok(()))
}

#[test]
fn second_vcpu_started_in_garbage_ends_or_leaves_the_first_running() {
    // Zeros, 64-bit code executed in real mode, page tables, and a page without memory.
    for page in [ZEROS, CODE, 0x2000, 0xf_f000] {
        let Some(mut host) = Host::new() else { return };
        host.option("--cpus=2");
        let image = GuestBuilder::image(DONE, |guest| start_second_vcpu(guest, page));
        let code = host.run(&image);
        // The second vCPU may cause a triple fault.
        assert!([DONE.into(), NO_STATUS].contains(&code), "{page:#x}: {code}");
    }
}

#[test]
fn init_to_all_vcpus_ends_or_times_out() {
    let Some(mut host) = Host::new() else { return };
    host.option("--cpus=4");
    host.timeout(2);
    // INIT to all vCPUs, including the sender.
    let image = GuestBuilder::image(DONE, |guest| guest.write32(ICR, 0x8_4500));
    let code = host.run(&image);
    assert!([DONE.into(), NO_STATUS, TIMED_OUT].contains(&code), "{code}");
}

#[test]
fn guest_that_overwrites_all_memory_runs_on() {
    let overwrite = |guest: &mut GuestBuilder| {
        // From 1 MiB to 32 MiB: the image, its page tables, the boot information.
        guest.code.mov(rdi, 1u64 << 20)?;
        guest.repeat((31 << 20) / 256, |guest| {
            guest.random()?;
            // KVM without VMX or SVM emulates instructions: it decodes this one only once.
            guest.code.mov(rcx, 256u64 / 8)?;
            guest.code.rep().stosq()
        })
    };
    if let Some(code) = run(overwrite) {
        assert_eq!(code, DONE.into());
    }
}

#[test]
fn random_writes_to_the_local_apic_end_or_time_out() {
    let Some(mut host) = Host::new() else { return };
    host.option("--cpus=2");
    host.timeout(5);
    let write_random = |guest: &mut GuestBuilder| {
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
    let code = host.run(&GuestBuilder::image(DONE, write_random));
    assert!([DONE.into(), NO_STATUS, TIMED_OUT].contains(&code), "{code}");
}
