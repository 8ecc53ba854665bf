//! Register state with which the boot CPU enters the kernel.

use kvm_bindings::{kvm_fpu, kvm_regs, kvm_segment, kvm_sregs};

use crate::image::boot::KernelEntry;

/// CR0: PG, WP, NE, ET, PE.
const CR0: u64 = 1 << 31 | 1 << 16 | 1 << 5 | 1 << 4 | 1;
/// CR4: PAE.
const CR4: u64 = 1 << 5;
/// CR4.OSFXSR, which enables SSE instructions.
pub(super) const CR4_OSFXSR: u64 = 1 << 9;
/// EFER: NXE, LMA, LME.
const EFER: u64 = 1 << 11 | 1 << 10 | 1 << 8;
/// RFLAGS with the bit that is always set; IF is clear.
const RFLAGS: u64 = 1 << 1;

/// Segment types (SDM volume 3, section 3.4.5.1 and table 3-2).
const CODE: u8 = 0b1011;
const DATA: u8 = 0b0011;
const BUSY_TSS: u8 = 0b1011;

/// Returns a flat segment register with DPL 0. There is no descriptor table for it, because the kernel loads
/// its own GDT before it loads a segment register.
fn segment(selector: u16, kind: u8) -> kvm_segment {
    let is_code = u8::from(kind == CODE);
    kvm_segment {
        limit: u32::MAX,
        selector,
        type_: kind,
        present: 1,
        db: 1 - is_code,
        s: 1,
        l: is_code,
        g: 1,
        ..kvm_segment::default()
    }
}

/// Returns the system registers for long mode with the image's page tables. All others are as after a reset.
pub(super) fn system_registers(reset: kvm_sregs, entry: &KernelEntry) -> kvm_sregs {
    let data = segment(0x10, DATA);
    kvm_sregs {
        cs: segment(0x08, CODE),
        ds: data,
        es: data,
        fs: data,
        gs: data,
        ss: data,
        // VM entry requires a usable TR (SDM volume 3, section 27.3.1.2).
        tr: kvm_segment {
            limit: 0x67,
            selector: 0x18,
            type_: BUSY_TSS,
            present: 1,
            ..kvm_segment::default()
        },
        cr0: CR0,
        cr3: entry.page_table_root,
        cr4: CR4,
        efer: EFER,
        ..reset
    }
}

/// Returns the general registers: rip is the kernel's entry point, and the first argument is the address of
/// the boot information.
pub(super) fn registers(entry: &KernelEntry) -> kvm_regs {
    kvm_regs { rip: entry.rip, rdi: entry.boot_info, rflags: RFLAGS, ..kvm_regs::default() }
}

/// Returns the x87 and SSE state after a reset, with the control words of the System V ABI.
pub(super) fn fpu() -> kvm_fpu {
    kvm_fpu { fcw: 0x37f, mxcsr: 0x1f80, ..kvm_fpu::default() }
}
