//! The kernel command line.

use alloc::vec::Vec;

use hermit_hal::once::Once;
use hermit_interface::command_line::CommandLine;

static PARSED: Once<CommandLine> = Once::new();

static TEXT: Once<Vec<u8>> = Once::new();

/// Copies and parses the command line that the loader has passed.
pub(crate) fn init(text: &[u8]) {
    TEXT.call_once(|| text.to_vec());
    PARSED.call_once(|| CommandLine::parse(text));
}

/// The parsed command line; empty before [`init`].
pub(crate) fn parsed() -> &'static CommandLine {
    PARSED.call_once(CommandLine::default)
}

/// The command line as the loader has passed it; empty before [`init`].
pub(crate) fn text() -> &'static [u8] {
    TEXT.get().map_or(&[], Vec::as_slice)
}
