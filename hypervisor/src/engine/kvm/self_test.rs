//! Self-test: a guest of four instructions shows whether KVM executes code at native speed or emulates it in
//! software.
//!
//! KVM without VMX or SVM emulates only few instructions, none of them SSE arithmetic, and is a thousand
//! times slower.

use std::time::{Duration, Instant};

use hermit_interface::exit::QUIT_PORT;
use vm_memory::{Bytes, GuestAddress};

use super::error::KvmError;
use super::vcpu::KvmVcpu;
use crate::engine::{Vcpu, VcpuExit};
use crate::image::boot::KernelEntry;

/// Guest physical addresses of the code, and of the page tables that identity-map the first 2 MiB.
const CODE: u64 = 0x1000;
const TABLES: [u64; 3] = [0x2000, 0x3000, 0x4000];

/// Bits of page-table entries: present and writable; page size (2 MiB).
const TABLE: u64 = 0b11;
const LARGE: u64 = 1 << 7;

/// Iterations of the guest's loop.
const ROUNDS: u32 = 20_000;

/// Time limit for the loop. A CPU needs less than a tenth of this time, software emulation more than twice
/// this time.
const LIMIT: Duration = Duration::from_millis(5);

/// Maximum number of runs. One run is not enough, because the host may preempt it.
const MAX_RUNS: u32 = 3;

/// Runs the guest on a vCPU of a VM whose memory is still unused. Clears the memory afterwards.
///
/// # Errors
///
/// [`KvmError::SoftwareEmulation`] if KVM emulates the guest.
pub(crate) fn self_test(vcpu: &mut KvmVcpu) -> Result<(), KvmError> {
    write(vcpu, CODE, &code())?;
    for (table, next) in TABLES.iter().zip([TABLES[1] | TABLE, TABLES[2] | TABLE, LARGE | TABLE]) {
        write(vcpu, *table, &next.to_le_bytes())?;
    }
    let result = run_repeatedly(vcpu);
    for page in [CODE].into_iter().chain(TABLES) {
        write(vcpu, page, &[0; 32])?;
    }
    result
}

fn write(vcpu: &KvmVcpu, address: u64, bytes: &[u8]) -> Result<(), KvmError> {
    let written = vcpu.memory().guest().write_slice(bytes, GuestAddress(address));
    written.map_err(|_| KvmError::Unsupported("memory for a test"))
}

/// `paddd xmm0, xmm0`; a loop that counts down; a write to the quit port.
fn code() -> Vec<u8> {
    let [quit, _] = QUIT_PORT.to_le_bytes();
    let mut code = vec![0x66, 0x0f, 0xfe, 0xc0, 0xb9];
    code.extend_from_slice(&ROUNDS.to_le_bytes());
    code.extend_from_slice(&[0xff, 0xc9, 0x75, 0xfc, 0xe6, quit]);
    code
}

fn run_repeatedly(vcpu: &mut KvmVcpu) -> Result<(), KvmError> {
    let mut best = Duration::MAX;
    for _ in 0..MAX_RUNS {
        best = best.min(run_once(vcpu)?);
        if best < LIMIT {
            return Ok(());
        }
    }
    Err(KvmError::SoftwareEmulation(format!("{ROUNDS} rounds of a loop took {best:?}")))
}

/// Runs the guest from its first instruction to the write to the quit port, and returns how long that took.
fn run_once(vcpu: &mut KvmVcpu) -> Result<Duration, KvmError> {
    vcpu.set_entry_with_sse(&KernelEntry {
        rip: CODE,
        page_table_root: TABLES[0],
        ..KernelEntry::default()
    })?;
    let start = Instant::now();
    loop {
        match vcpu.run() {
            Ok(VcpuExit::PioWrite(QUIT_PORT, _)) => return Ok(start.elapsed()),
            Ok(VcpuExit::Interrupted) => {}
            _ => return Err(KvmError::SoftwareEmulation(vcpu.failure())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::code;

    #[test]
    fn code_jumps_back_to_start_of_loop() {
        let code = code();
        let jump = code.iter().position(|&byte| byte == 0x75).unwrap();
        let target = jump + 2 - usize::from(code[jump + 1].wrapping_neg());
        assert_eq!(code[target..target + 2], [0xff, 0xc9]);
    }
}
