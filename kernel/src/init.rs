//! From a prepared processor to the program's `main`.

use alloc::ffi::CString;
use alloc::vec::Vec;
use core::ffi::CStr;

use hermit_abi::NORMAL_PRIO;
use hermit_hal::boot::Boot;
use hermit_hal::memory::OutOfMemory;
use hermit_interface::command_line::CommandLine;
use spin::Once;

use crate::threads::life;
use crate::{descriptors, devices, entropy, report, start};

/// Size of the main thread's stack, as on Linux. Memory is behind it only where it was used.
const MAIN_STACK_SIZE: usize = 8 << 20;

/// The name by which the program is called if nobody says otherwise.
const DEFAULT_NAME: &[u8] = b"hermit";

static COMMAND_LINE: Once<CommandLine> = Once::new();

/// The same as it was written.
static COMMAND_LINE_TEXT: Once<Vec<u8>> = Once::new();

/// Runs once the processor is ready.
pub(crate) fn main(boot: Boot) -> ! {
    report::init();
    let line = COMMAND_LINE.call_once(|| CommandLine::parse(boot.info.command_line));
    COMMAND_LINE_TEXT.call_once(|| boot.info.command_line.to_vec());
    devices::init(&boot, line);
    descriptors::init();
    entropy::init(&boot);
    let Err(OutOfMemory) = life::start(MAIN_STACK_SIZE, program, NORMAL_PRIO.into());
    report::fatal(format_args!("too little memory for the main thread"))
}

/// The command line, as the loader has handed it over.
pub(crate) fn command_line() -> &'static [u8] {
    COMMAND_LINE_TEXT.get().map_or(&[], Vec::as_slice)
}

/// The main thread.
extern "C" fn program(_: usize) {
    let line = COMMAND_LINE.call_once(CommandLine::default);
    let name = line.argv0.as_deref().unwrap_or(DEFAULT_NAME);
    let args: Vec<_> =
        core::iter::once(name).chain(line.args.iter().map(Vec::as_slice)).map(string).collect();
    let env: Vec<_> = line.env.iter().map(|variable| string(variable)).collect();
    start::run_program(&args, &env)
}

/// The bytes up to the first NUL, as a string that lives for ever.
fn string(bytes: &[u8]) -> &'static CStr {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    let string = CString::new(&bytes[..end]).unwrap_or_default();
    alloc::boxed::Box::leak(string.into_boxed_c_str())
}
