//! Random numbers of the host's kernel.

use rustix::io::{Result, retry_on_intr};
use rustix::rand::{GetRandomFlags, getrandom};

/// Fills `bytes` with getrandom(2). Does not use a file such as `/dev/urandom`, because a confined thread
/// could not open it.
pub(crate) fn fill(bytes: &mut [u8]) -> Result<()> {
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        filled += retry_on_intr(|| getrandom(&mut *rest, GetRandomFlags::empty()))?;
    }
    Ok(())
}

/// Returns 64 random bits.
pub(crate) fn word() -> Result<u64> {
    let mut bytes = [0; 8];
    fill(&mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::{fill, word};

    #[test]
    fn all_bytes_are_filled() {
        // getrandom(2) may return less than it was asked for beyond 256 bytes.
        let mut bytes = vec![0; 1 << 20];
        fill(&mut bytes).unwrap();
        assert!(bytes.chunks(64).all(|chunk| chunk.iter().any(|byte| *byte != 0)));
        assert_ne!(word().unwrap(), word().unwrap());
    }
}
