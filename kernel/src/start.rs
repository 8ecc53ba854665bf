//! The image's entry point and its ABI note, which loader and hypervisor look for.
#![expect(unsafe_code, reason = "the linker places the note by the name of its section")]

use hermit_interface::note::AbiNote;

hermit_hal::entry!(crate::init::start_kernel);

/// The ELF note with the version of the boot protocol.
#[used]
#[unsafe(link_section = ".note.hermit")]
static NOTE: AbiNote = AbiNote::CURRENT;
