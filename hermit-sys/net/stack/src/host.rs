//! The interface to the system that runs the stack.

/// A source of random numbers.
pub trait Random {
    /// Returns a cryptographically secure random number, for ports, secret keys and hash seeds.
    fn random(&mut self) -> u64;
}

/// The system around the stack.
pub trait Host: Random {
    /// Reports that the socket or query with this waker key may have a new readiness or state. Called while
    /// the stack is borrowed, so the implementation must not call the stack.
    fn wake(&mut self, waker_key: usize);
}
