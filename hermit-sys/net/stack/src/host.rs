//! What the stack asks of whoever runs it.

/// The system around the stack.
pub trait Host {
    /// A random number that nobody can guess: ports, sequence numbers and keys of tables come from it.
    fn random(&mut self) -> u64;

    /// The readiness of a socket, or a query, may have changed; `cookie` is what its creator gave.
    ///
    /// Called with the stack in use: it must not call back.
    fn wake(&mut self, cookie: usize);
}
