//! A guest of four instructions that says whether KVM runs code itself or merely emulates it.
//!
//! KVM without virtualisation hardware knows few instructions, none of SSE's arithmetic among them, and is a thousand times
//! slower.

use std::time::{Duration, Instant};

use hermit_interface::exit::QUIT_PORT;
use vm_memory::{Bytes, GuestAddress};

use super::vcpu::KvmVcpu;
use crate::boot::Entry;
use crate::engine::{EngineError, Exit, Vcpu};

/// Where the code is, and the page tables that map the first 2 MiB one to one.
const CODE: u64 = 0x1000;
const TABLES: [u64; 3] = [0x2000, 0x3000, 0x4000];

/// Entries of page tables: present and writable; and a page of 2 MiB.
const TABLE: u64 = 0b11;
const LARGE: u64 = 1 << 7;

/// How often the loop runs.
const ROUNDS: u32 = 20_000;

/// A processor needs less than a tenth of this for the loop, an emulator more than twice as much.
const LIMIT: Duration = Duration::from_millis(5);

/// How often it is tried, since somebody else may have had the CPU meanwhile.
const TRIES: u32 = 3;

/// Runs the guest; the memory is as it was afterwards.
pub(super) fn run(vcpu: &mut KvmVcpu) -> Result<(), EngineError> {
    write(vcpu, CODE, &code())?;
    for (table, next) in TABLES.iter().zip([TABLES[1] | TABLE, TABLES[2] | TABLE, LARGE | TABLE]) {
        write(vcpu, *table, &next.to_le_bytes())?;
    }
    let result = repeat(vcpu);
    for page in [CODE].into_iter().chain(TABLES) {
        write(vcpu, page, &[0; 32])?;
    }
    result
}

fn write(vcpu: &KvmVcpu, address: u64, bytes: &[u8]) -> Result<(), EngineError> {
    let written = vcpu.memory.guest().write_slice(bytes, GuestAddress(address));
    written.map_err(|_| EngineError::Lacks("memory for a test"))
}

/// `paddd xmm0, xmm0`; a loop that counts down; the end.
fn code() -> Vec<u8> {
    let [quit, _] = QUIT_PORT.to_le_bytes();
    let mut code = vec![0x66, 0x0f, 0xfe, 0xc0, 0xb9];
    code.extend_from_slice(&ROUNDS.to_le_bytes());
    code.extend_from_slice(&[0xff, 0xc9, 0x75, 0xfc, 0xe6, quit]);
    code
}

fn repeat(vcpu: &mut KvmVcpu) -> Result<(), EngineError> {
    let mut best = Duration::MAX;
    for _ in 0..TRIES {
        best = best.min(once(vcpu)?);
        if best < LIMIT {
            return Ok(());
        }
    }
    Err(EngineError::Emulated(format!("{ROUNDS} rounds of a loop took {best:?}")))
}

/// How long the guest takes.
fn once(vcpu: &mut KvmVcpu) -> Result<Duration, EngineError> {
    vcpu.enter_with_vectors(&Entry { instruction: CODE, page_table_root: TABLES[0], ..Entry::default() })?;
    let start = Instant::now();
    loop {
        match vcpu.run()? {
            Exit::PortWrite(QUIT_PORT, _) => return Ok(start.elapsed()),
            Exit::Interrupted => {}
            _ => return Err(EngineError::Emulated(vcpu.failure())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::code;

    #[test]
    fn the_loop_jumps_to_its_start() {
        let code = code();
        let jump = code.iter().position(|&byte| byte == 0x75).unwrap();
        let target = jump + 2 - usize::from(code[jump + 1].wrapping_neg());
        assert_eq!(code[target..target + 2], [0xff, 0xc9]);
    }
}
