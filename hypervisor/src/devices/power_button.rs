//! The power button of a VM, with which the user asks the guest's program to end.

use std::sync::atomic::{AtomicBool, Ordering};

use hermit_interface::machine::POWER_BUTTON_LINE;

use crate::devices::virtio::Interrupt;
use crate::engine::{Engine, EngineError};

/// Power button: an interrupt line. The guest enables the button once its program handles requests to end.
#[derive(Debug)]
pub struct PowerButton {
    line: Box<dyn Interrupt>,
    is_enabled: AtomicBool,
}

impl PowerButton {
    /// Creates the button of a VM. The guest has not enabled it yet.
    ///
    /// # Errors
    ///
    /// See [`EngineError`].
    pub fn new(engine: &dyn Engine) -> Result<Self, EngineError> {
        Ok(Self::on(engine.irq_line(POWER_BUTTON_LINE)?))
    }

    /// Creates a button that raises this line.
    #[must_use]
    pub fn on(line: Box<dyn Interrupt>) -> Self {
        Self { line, is_enabled: AtomicBool::new(false) }
    }

    /// Enables the button, because the guest's program now handles requests to end.
    pub fn enable(&self) {
        self.is_enabled.store(true, Ordering::Relaxed);
    }

    /// Presses the button. Returns false, and does nothing, if the guest has not enabled it.
    pub fn press(&self) -> bool {
        let is_enabled = self.is_enabled.load(Ordering::Relaxed);
        if is_enabled {
            self.line.raise();
        }
        is_enabled
    }
}
