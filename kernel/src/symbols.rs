//! Call stacks and the names of their functions, for error reports and for the program.
//!
//! Addresses are relative to the image's start.

use core::fmt::{self, Write};
use core::mem::MaybeUninit;

use hermit_hal::{fault, memory, symbols};
use hermit_interface::to_usize;
use hermit_symbols::prologue::{self, MAX_PROLOGUE, Prologue};
use hermit_symbols::{SymbolOffset, SymbolTable};

/// Finds the function that contains an address.
pub(crate) fn find(address: u64) -> Option<SymbolOffset<'static>> {
    let (table, strings) = symbols::tables()?;
    SymbolTable::new(table, strings).find(address)
}

/// State of a function that is executing: a frame of the stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    /// Address of the next instruction.
    pub(crate) instruction_pointer: u64,
    pub(crate) stack_pointer: u64,
    pub(crate) frame_pointer: u64,
}

impl Frame {
    /// Returns the frame of the caller. Finds the return address by decoding the function's prologue. If
    /// there is no return address at that place, follows the frame pointer.
    #[inline(never)]
    fn caller(self) -> Option<Self> {
        let caller = self.by_prologue().filter(|frame| frame.follows_call());
        let caller = caller.or_else(|| self.by_frame_pointer())?;
        // Frames of callers lie higher.
        (caller.instruction_pointer != 0 && caller.stack_pointer > self.stack_pointer).then_some(caller)
    }

    #[inline(never)]
    fn by_prologue(self) -> Option<Self> {
        let address = self.instruction_pointer.checked_sub(memory::image().start)?;
        // The address is decremented because a return address may be the start of the next function.
        let offset = find(address.checked_sub(1)?)?.offset + 1;
        let mut code = [0; MAX_PROLOGUE];
        if !memory::read_image(self.instruction_pointer.checked_sub(offset)?, &mut code) {
            return None;
        }
        let executed = usize::try_from(offset).unwrap_or(MAX_PROLOGUE).min(MAX_PROLOGUE);
        let prologue = Prologue::parse(&code[..executed]);
        if prologue.has_frame_pointer {
            return self.by_frame_pointer();
        }
        let place = self.stack_pointer.checked_add(prologue.size)?;
        let frame_pointer = match prologue.saved_frame_pointer {
            Some(distance) => fault::stack_word(place.checked_sub(distance)?)?,
            None => self.frame_pointer,
        };
        let instruction_pointer = fault::stack_word(place)?;
        Some(Self { instruction_pointer, stack_pointer: place + 8, frame_pointer })
    }

    #[inline(never)]
    fn by_frame_pointer(self) -> Option<Self> {
        let (frame_pointer, instruction_pointer) = fault::frame_record(self.frame_pointer)?;
        let stack_pointer = self.frame_pointer.checked_add(16)?;
        Some(Self { instruction_pointer, stack_pointer, frame_pointer })
    }

    /// Returns true if the instruction before the return address is a call.
    fn follows_call(&self) -> bool {
        let mut code = [0; 7];
        let start = self.instruction_pointer.wrapping_sub(code.len() as u64);
        memory::read_image(start, &mut code) && prologue::ends_with_call(code)
    }
}

/// Iterates over the return addresses of a frame's callers, innermost first.
pub(crate) fn return_addresses(frame: Frame) -> impl Iterator<Item = u64> {
    core::iter::successors(frame.caller(), |frame| frame.caller()).map(|frame| frame.instruction_pointer)
}

/// Stores the calls on the stack, innermost first, and returns their number. The registers are those at the
/// entry of the innermost function. A call is stored as the address of the last byte of the call instruction,
/// because the return address itself may be the start of the next function.
pub(crate) fn calls(stack_pointer: u64, frame_pointer: u64, calls: &mut [usize]) -> usize {
    let Some(instruction_pointer) = fault::stack_word(stack_pointer) else { return 0 };
    let image = memory::image();
    let frame = Frame { instruction_pointer, stack_pointer: stack_pointer + 8, frame_pointer };
    let mut frame = Some(frame);
    let mut count = 0;
    while let Some((place, here)) = calls.get_mut(count).zip(frame) {
        let call = here.instruction_pointer.wrapping_sub(image.start).wrapping_sub(1);
        if call >= image.size {
            break;
        }
        *place = to_usize(call);
        count += 1;
        frame = here.caller();
    }
    count
}

/// Stores the demangled name of the function that contains an address. Truncates the name at a character
/// boundary if necessary. Returns the length of the stored name, or 0 if no name is known.
pub(crate) fn name(address: u64, buffer: &mut [MaybeUninit<u8>]) -> usize {
    let mut text = Truncated { buffer, len: 0 };
    // An error only means that the rest of the name does not fit.
    let _: fmt::Result = find(address).map_or(Ok(()), |symbol| write!(text, "{}", symbol.demangled()));
    text.len
}

/// Text in a buffer. Writing more than fits is an error.
struct Truncated<'a> {
    buffer: &'a mut [MaybeUninit<u8>],
    len: usize,
}

impl Write for Truncated<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let place = self.buffer.get_mut(self.len..).unwrap_or_default();
        let fitting = text.get(..text.floor_char_boundary(place.len())).unwrap_or_default();
        let (place, _) = place.split_at_mut(fitting.len());
        place.write_copy_of_slice(fitting.as_bytes());
        self.len += fitting.len();
        if fitting.len() == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}
