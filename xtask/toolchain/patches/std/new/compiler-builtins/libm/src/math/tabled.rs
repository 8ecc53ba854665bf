//! Functions by tables and short polynomials. Set-up makes this a module of `compiler_builtins`.

#[cfg(target_feature = "sse2")]
use crate::mem::selection;

mod arithmetic;
mod exponentials;
mod logarithms;
mod powers;
mod tables;
mod trigonometry;

pub use self::exponentials::{exp, exp2, exp2f, expf};
pub use self::logarithms::{log, log2, log2f, log10, log10f, logf};
pub use self::powers::{pow, powf};
pub use self::trigonometry::{cosf, sinf};
