//! What the filter says of system calls, as the host's kernel would.
