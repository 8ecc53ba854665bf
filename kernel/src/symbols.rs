//! Call stacks and the functions in them: for error reports, and for the program.
//!
//! Addresses are relative to the image's start.

use core::fmt::{self, Write};
use core::mem::MaybeUninit;

use hermit_hal::{fault, memory, symbols};
use hermit_interface::to_usize;
use hermit_symbols::{SymbolOffset, SymbolTable};

/// Finds the function that contains an address.
pub(crate) fn find(address: u64) -> Option<SymbolOffset<'static>> {
    let (table, strings) = symbols::tables()?;
    SymbolTable::new(table, strings).find(address)
}

/// Stores the calls on the stack of a function that was called with these registers, innermost first, and returns their
/// number. A call is the address of the last byte of its instruction: the return address may be the start of another
/// function.
pub(crate) fn calls(stack_pointer: u64, frame_pointer: u64, calls: &mut [usize]) -> usize {
    let image = memory::image();
    let found = fault::backtrace_of_call(stack_pointer, frame_pointer)
        .map(|address| address.wrapping_sub(image.start).wrapping_sub(1))
        .filter(|call| *call < image.size);
    calls.iter_mut().zip(found).map(|(place, call)| *place = to_usize(call)).count()
}

/// Stores the demangled name of the function that contains an address, truncated at a character boundary, and returns
/// its length; 0 if none is known.
pub(crate) fn name(address: u64, buffer: &mut [MaybeUninit<u8>]) -> usize {
    let mut text = Truncated { buffer, len: 0 };
    // An error means that the rest of the name does not fit.
    let _: fmt::Result = find(address).map_or(Ok(()), |symbol| write!(text, "{}", symbol.demangled()));
    text.len
}

/// Text in a buffer. What does not fit is an error.
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
