//! Decodes function prologues of x86-64, to find the return address of a function that has no frame pointer.
//!
//! rustc emits frame pointers only on request, and no unwind tables if panics abort. But a function allocates
//! its stack frame with its first instructions, and these are of only a few kinds (SDM volume 2: PUSH, MOV,
//! SUB).

/// Size of the code that [`Prologue::parse`] looks at, in bytes.
pub const MAX_PROLOGUE: usize = 48;

/// Effect of a function's first instructions on the stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prologue {
    /// Bytes between the stack pointer and the return address.
    pub size: u64,
    /// Distance below the return address at which the caller's frame pointer is saved, if it is.
    pub saved_frame_pointer: Option<u64>,
    /// The frame pointer points at the saved one, which is just below the return address.
    pub has_frame_pointer: bool,
}

impl Prologue {
    /// Parses the instructions of a function, from its start up to the one that is executing. Stops earlier
    /// at the first instruction of another kind.
    #[must_use]
    pub fn parse(mut code: &[u8]) -> Self {
        let mut prologue = Self::default();
        loop {
            code = match *code {
                // ENDBR64, and the store that probes a page of the stack.
                [0xf3, 0x0f, 0x1e, 0xfa, ref rest @ ..]
                | [0x48, 0xc7, 0x04, 0x24, 0, 0, 0, 0, ref rest @ ..] => rest,
                // PUSH of the frame pointer.
                [0x55, ref rest @ ..] => {
                    prologue.size += 8;
                    prologue.saved_frame_pointer = Some(prologue.size);
                    rest
                }
                // PUSH of another register.
                [0x50..=0x57, ref rest @ ..] | [0x41, 0x50..=0x57, ref rest @ ..] => {
                    prologue.size += 8;
                    rest
                }
                // SUB from the stack pointer.
                [0x48, 0x83, 0xec, size @ 0..=0x7f, ref rest @ ..] => {
                    prologue.size += u64::from(size);
                    rest
                }
                [0x48, 0x81, 0xec, a, b, c, d, ref rest @ ..] => {
                    prologue.size += u64::from(u32::from_le_bytes([a, b, c, d]));
                    rest
                }
                // MOV of the stack pointer to the frame pointer.
                [0x48, 0x89, 0xe5, ..] | [0x48, 0x8b, 0xec, ..] => {
                    prologue.has_frame_pointer =
                        prologue.saved_frame_pointer == Some(8) && prologue.size == 8;
                    return prologue;
                }
                _ => return prologue,
            };
        }
    }
}

/// Returns true if the code before a return address ends with a call: CALL with a relative target, or through
/// a register or memory (opcode FF /2, of two to seven bytes).
#[must_use]
pub fn ends_with_call(code: [u8; 7]) -> bool {
    let is_indirect = |pair: &[u8]| pair[0] == 0xff && pair[1] >> 3 & 7 == 2;
    code[2] == 0xe8 || code.windows(2).any(is_indirect)
}

#[cfg(test)]
mod tests {
    use super::{Prologue, ends_with_call};

    fn parse(code: &[u8]) -> (u64, Option<u64>, bool) {
        let Prologue { size, saved_frame_pointer, has_frame_pointer } = Prologue::parse(code);
        (size, saved_frame_pointer, has_frame_pointer)
    }

    #[test]
    fn prologues_are_parsed_up_to_the_first_other_instruction() {
        // sub rsp, 0x18; mov [rsp], rdi; sub rsp, 8
        let debug = [0x48, 0x83, 0xec, 0x18, 0x48, 0x89, 0x3c, 0x24, 0x48, 0x83, 0xec, 0x08];
        assert_eq!(parse(&debug), (0x18, None, false));
        // sub rsp, 0x1000; mov qword ptr [rsp], 0; sub rsp, 0x208; ret
        let probed = [
            0x48, 0x81, 0xec, 0, 0x10, 0, 0, 0x48, 0xc7, 0x04, 0x24, 0, 0, 0, 0, 0x48, 0x81, 0xec, 8, 2, 0,
            0, 0xc3,
        ];
        assert_eq!(parse(&probed), (0x1208, None, false));
        // push rbp; mov rbp, rsp; push r15; sub rsp, 8
        let framed = [0x55, 0x48, 0x89, 0xe5, 0x41, 0x57, 0x48, 0x83, 0xec, 8];
        assert_eq!(parse(&framed), (8, Some(8), true));
        // push r15; push rbp; push rbx; push rax; xor eax, eax
        assert_eq!(parse(&[0x41, 0x57, 0x55, 0x53, 0x50, 0x31, 0xc0]), (32, Some(16), false));
        // endbr64; test rdi, rdi; push rbx
        assert_eq!(parse(&[0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x85, 0xff, 0x53]), (0, None, false));
        assert_eq!(parse(&[]), (0, None, false));
        assert_eq!(parse(&framed[..1]), (8, Some(8), false));
    }

    #[test]
    fn calls_are_recognised_by_their_last_bytes() {
        for code in [
            [0, 0, 0xe8, 1, 2, 3, 4],       // call relative
            [0, 0, 0, 0, 0, 0xff, 0xd0],    // call rax
            [0, 0, 0, 0, 0x41, 0xff, 0xd7], // call r15
            [0, 0, 0, 0, 0xff, 0x50, 0x18], // call [rax + 0x18]
            [0, 0xff, 0x15, 1, 2, 3, 4],    // call [rip + ...]
            [0xff, 0x94, 0x24, 1, 2, 3, 4], // call [rsp + ...]
        ] {
            assert!(ends_with_call(code), "{code:x?}");
        }
        assert!(!ends_with_call([0; 7]));
        assert!(!ends_with_call([0xe8, 0, 0, 0, 0, 0x89, 0xe5]));
        // jmp rax
        assert!(!ends_with_call([0, 0, 0, 0, 0, 0xff, 0xe0]));
    }
}
