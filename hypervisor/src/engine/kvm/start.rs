//! The state in which processors start.

use kvm_bindings::{kvm_fpu, kvm_regs, kvm_segment, kvm_sregs};

use crate::boot::Entry;

/// Control register 0: paging, write protection, native x87 errors, extension type, protection.
const CR0: u64 = 1 << 31 | 1 << 16 | 1 << 5 | 1 << 4 | 1;
/// Control register 4: physical address extension.
const CR4: u64 = 1 << 5;
/// Control register 4: instructions of SSE.
pub(super) const CR4_VECTORS: u64 = 1 << 9;
/// EFER: no-execute pages, long mode active and enabled.
const EFER: u64 = 1 << 11 | 1 << 10 | 1 << 8;
/// The bit of RFLAGS that is always set; interrupts are off.
const FLAGS: u64 = 1 << 1;

/// Segment types (SDM volume 3, section 3.4.5.1 and table 3-2).
const CODE: u8 = 0b1011;
const DATA: u8 = 0b0011;
const BUSY_TASK: u8 = 0b1011;

/// A flat segment with privilege, as the processor's hidden registers hold it. There is no descriptor behind it: the kernel
/// loads its own before anything else.
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

/// 64-bit mode with the image's page tables, on top of the state after a reset.
pub(super) fn system_registers(reset: kvm_sregs, entry: &Entry) -> kvm_sregs {
    let data = segment(0x10, DATA);
    kvm_sregs {
        cs: segment(0x08, CODE),
        ds: data,
        es: data,
        fs: data,
        gs: data,
        ss: data,
        // Processors insist on one (SDM volume 3, section 27.3.1.2).
        tr: kvm_segment {
            limit: 0x67,
            selector: 0x18,
            type_: BUSY_TASK,
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

/// The kernel's entry, with its argument.
pub(super) fn registers(entry: &Entry) -> kvm_regs {
    kvm_regs { rip: entry.instruction, rdi: entry.boot_info, rflags: FLAGS, ..kvm_regs::default() }
}

/// Floating point as after a reset, with the System V ABI's control words.
pub(super) fn floating_point() -> kvm_fpu {
    kvm_fpu { fcw: 0x37f, mxcsr: 0x1f80, ..kvm_fpu::default() }
}
