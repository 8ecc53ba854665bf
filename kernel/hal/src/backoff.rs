//! Waiting in a spin loop.

use crate::ops;

/// Delay between two looks at something that another CPU is to change.
///
/// Where the processor is emulated, the spin-loop hint is expensive and slows the other CPU down: it takes a
/// lock of the emulator. So the hint is given in one of 128 steps.
#[derive(Debug, Default)]
pub(crate) struct Backoff(u8);

impl Backoff {
    /// Waits for some cycles.
    #[inline]
    pub(crate) fn wait(&mut self) {
        self.0 = self.0.wrapping_add(1);
        if self.0.is_multiple_of(128) {
            ops::cpu().relax();
        }
    }
}
