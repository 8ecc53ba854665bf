//! Initialises the kernel in the right order. It begins on the CPU that the hal has set up, and ends with the
//! start of the main thread.

use alloc::string::String;
use alloc::sync::Arc;

use hermit_abi::NORMAL_PRIO;
use hermit_hal::boot::Boot;
use hermit_hal::interrupts::Masked;
use hermit_hal::memory::OutOfMemory;
use hermit_io::{Console, ErrorStream, Object};

use crate::console::{MachineConsole, MachineError};
use crate::threads::cpu;
use crate::threads::lifecycle::{self, SpawnArgs};
use crate::threads::memory_return;
use crate::{command_line, descriptors, devices, entropy, interrupts, program, report};

/// Stack size of the main thread in bytes, as on Linux. Pages get memory only when they are first used.
const MAIN_STACK_SIZE: usize = 8 << 20;

/// Initialises the kernel and starts the main thread. The hal calls it on the boot CPU.
pub(crate) fn start_kernel(boot: Boot) -> ! {
    report::init();
    command_line::init(boot.info.command_line);
    if let Some(word) = &command_line::parsed().misplaced {
        report::invalid_configuration(format_args!(
            "`{word}` on the kernel command line is no option: write the program's arguments after `--`, such as \
             `-append '-- {word}'`",
            word = String::from_utf8_lossy(word)
        ));
    }
    devices::init(&boot, command_line::parsed());
    let console: Arc<dyn Object> = Arc::new(Console::new(MachineConsole::new()));
    descriptors::init(&console, Arc::new(ErrorStream::new(MachineError)));
    entropy::init(&boot);
    let main_thread = SpawnArgs {
        function: (program::run, 0),
        priority: NORMAL_PRIO.into(),
        stack_size: MAIN_STACK_SIZE,
        cpu: None,
    };
    let mut masked = Masked::new();
    if let Err(OutOfMemory) = lifecycle::start(&masked, &main_thread) {
        report::fatal(format_args!("too little memory for the main thread"));
    }
    memory_return::init();
    interrupts::init();
    cpu::idle(&mut masked)
}
