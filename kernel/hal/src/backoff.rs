//! Waiting in a spin loop.

use crate::ops;

/// Delay between two polls for a change that another CPU is about to make.
///
/// Where the processor is emulated, the spin-loop hint is expensive and slows the other CPU down: it takes a
/// lock of the emulator. So only one step in 128 gives the hint.
#[derive(Debug, Default)]
pub(crate) struct Backoff(u8);

impl Backoff {
    /// Waits for a few cycles.
    #[inline]
    pub(crate) fn wait(&mut self) {
        self.0 = self.0.wrapping_add(1);
        if self.0.is_multiple_of(128) {
            ops::cpu().relax();
        }
    }
}
