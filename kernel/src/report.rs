//! Error reports: faults, fatal errors of the kernel, warnings.

use core::fmt::{self, Write};

use hermit_hal::console::ConsoleWriter;
use hermit_hal::exit::exit;
use hermit_hal::fault::{self, Fault, FaultKind};
use hermit_hal::interrupts::Masked;
use hermit_hal::stop;
use hermit_interface::exit::{
    ABORTED, ARITHMETIC_TRAP, BUS_ERROR, ILLEGAL_INSTRUCTION, INVALID_ACCESS, NOT_STARTED, TRAPPED,
};
use hermit_symbols::SymbolOffset;

use crate::symbols;
use crate::threads::schedule;
use crate::threads::thread::MAIN_ID;

/// Maximum number of frames in a printed backtrace.
const MAX_FRAMES: usize = 32;

/// Installs the fault handler.
pub(crate) fn init() {
    fault::set_handler(report_fault);
}

/// Prints an error of the kernel, and ends the machine.
pub(crate) fn fatal(reason: fmt::Arguments<'_>) -> ! {
    // Interrupts stay masked, so that this thread is neither preempted nor moved to another CPU while it
    // stops the other CPUs.
    core::mem::forget(Masked::new());
    stop::stop_others();
    // Writing to the console cannot fail.
    let _: fmt::Result = writeln!(ConsoleWriter, "hermit: fatal error: {reason}");
    exit(ABORTED)
}

/// Prints an error of the machine's configuration, and ends the machine with the status of a machine that
/// could not be started.
pub(crate) fn invalid_configuration(reason: fmt::Arguments<'_>) -> ! {
    // Writing to the console cannot fail.
    let _: fmt::Result = writeln!(ConsoleWriter, "hermit: error: {reason}");
    exit(NOT_STARTED)
}

/// Prints a warning.
pub(crate) fn warn(what: fmt::Arguments<'_>) {
    // Writing to the console cannot fail.
    let _: fmt::Result = writeln!(ConsoleWriter, "hermit: warning: {what}");
}

/// The fault handler: prints the fault, and ends the machine.
fn report_fault(fault: &Fault) -> ! {
    // Writing to the console cannot fail.
    let _: fmt::Result = print(fault);
    exit(status(fault.kind))
}

fn print(fault: &Fault) -> fmt::Result {
    let frame = &fault.frame;
    let out = &mut ConsoleWriter;
    writeln!(out, "\nthread '{}' {}", ThreadName, Reason(fault.kind))?;
    let cpu = Masked::new().cpu();
    writeln!(
        out,
        "  at {:#018x} on CPU {cpu}, vector {}, error code {:#x}",
        frame.instruction_pointer(),
        frame.vector(),
        frame.error_code()
    )?;
    for line in frame.registers() {
        for (name, value) in line {
            write!(out, "  {name} {value:016x}")?;
        }
        writeln!(out)?;
    }
    writeln!(out, "  image at {:#x}; backtrace, relative to it:", hermit_hal::memory::image().start)?;
    core::iter::once(frame.instruction_pointer())
        .chain(symbols::return_addresses(symbols::Frame {
            instruction_pointer: frame.instruction_pointer(),
            stack_pointer: frame.stack_pointer(),
            frame_pointer: frame.frame_pointer(),
        }))
        .take(MAX_FRAMES)
        .enumerate()
        .try_for_each(|(number, address)| print_frame(number, address))
}

/// Prints a line of the backtrace. Frame 0 has the address of the fault, all other frames have return
/// addresses.
fn print_frame(number: usize, address: u64) -> fmt::Result {
    let image = hermit_hal::memory::image();
    let Some(offset) = address.checked_sub(image.start).filter(|&offset| offset < image.size) else {
        return writeln!(ConsoleWriter, "  {number:>4}: {address:#x} (outside the image)");
    };
    // A call that never returns can be the last instruction of its function. Then the return address is
    // already the start of the next function. So the lookup uses the byte before the return address.
    let back = u64::from(number > 0 && offset > 0);
    match symbols::find(offset - back) {
        Some(SymbolOffset { name, offset: inside }) => {
            writeln!(
                ConsoleWriter,
                "  {number:>4}: {offset:#x} {}",
                SymbolOffset { name, offset: inside + back }
            )
        }
        None => writeln!(ConsoleWriter, "  {number:>4}: {offset:#x}"),
    }
}

/// Name of the current thread.
struct ThreadName;

impl fmt::Display for ThreadName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(thread) = schedule::try_current() else { return out.write_str("(none)") };
        match (thread.name().text(), thread.id()) {
            (Some(name), _) => out.write_str(name),
            (None, 0) => out.write_str("(idle)"),
            (None, MAIN_ID) => out.write_str("main"),
            (None, id) => write!(out, "{id:#x}"),
        }
    }
}

/// Cause of a fault, displayed as a predicate of the sentence about the thread.
struct Reason(FaultKind);

impl fmt::Display for Reason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            FaultKind::StackOverflow => {
                out.write_str("has overflowed its stack\nfatal error: stack overflow")
            }
            FaultKind::NoMemoryForStack => out.write_str("needs more stack, and there is no memory for it"),
            FaultKind::NoMemory => out.write_str("used more memory than there is"),
            FaultKind::NoHostMemory(address) => {
                write!(out, "used memory at {address:#x} that the host cannot provide")
            }
            FaultKind::Read(address) => write!(out, "read from {address:#x}, which is not mapped"),
            FaultKind::Write(address) => {
                write!(out, "wrote to {address:#x}, which is not mapped or read-only")
            }
            FaultKind::Execute(address) => write!(out, "jumped to {address:#x}, which is no code"),
            FaultKind::IllegalInstruction => out.write_str("executed an illegal instruction"),
            FaultKind::Arithmetic => out.write_str("divided by zero, or the quotient does not fit"),
            FaultKind::Protection => out.write_str("used an invalid address or a forbidden instruction"),
            FaultKind::Alignment => out.write_str("made a misaligned access"),
            FaultKind::Trap => out.write_str("reached a breakpoint"),
            FaultKind::Other(vector) => write!(out, "raised exception {vector}"),
        }
    }
}

/// Returns the exit status of a fault: 128 plus the number of the signal, as in a Linux shell.
fn status(kind: FaultKind) -> u8 {
    match kind {
        FaultKind::Read(_) | FaultKind::Write(_) | FaultKind::Execute(_) | FaultKind::Protection => {
            INVALID_ACCESS
        }
        FaultKind::IllegalInstruction => ILLEGAL_INSTRUCTION,
        FaultKind::Arithmetic => ARITHMETIC_TRAP,
        FaultKind::Alignment | FaultKind::NoHostMemory(_) => BUS_ERROR,
        FaultKind::Trap => TRAPPED,
        FaultKind::StackOverflow
        | FaultKind::NoMemoryForStack
        | FaultKind::NoMemory
        | FaultKind::Other(_) => ABORTED,
    }
}
