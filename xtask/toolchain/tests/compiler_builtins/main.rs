//! Tests, on the host, of the functions that set-up inserts into `compiler_builtins`. Their sources are
//! modules of this program.

#[cfg(test)]
mod functions;
#[cfg(test)]
mod mathematics;
#[cfg(test)]
mod memory;
