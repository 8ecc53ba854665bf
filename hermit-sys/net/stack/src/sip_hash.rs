//! SipHash: a keyed hash whose results no other host can predict.

use core::net::IpAddr;

/// Converts an address to words for [`sip_hash`]. An IPv4 address differs from all IPv6 addresses on the
/// wire.
pub(crate) fn words(address: IpAddr) -> [u64; 2] {
    let address = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    let bits = address.to_bits();
    [bits >> 64, bits & u128::from(u64::MAX)].map(|half| u64::try_from(half).unwrap_or(0))
}

/// Returns the lower half of a number.
pub(crate) fn low(value: u64) -> u32 {
    u32::try_from(value & u64::from(u32::MAX)).unwrap_or(0)
}

/// SipHash-2-4 (Aumasson and Bernstein, 2012) of whole words: a pseudorandom function of short inputs.
pub(crate) fn sip_hash([k0, k1]: [u64; 2], words: impl IntoIterator<Item = u64>) -> u64 {
    let mut state = [
        k0 ^ 0x736f_6d65_7073_6575,
        k1 ^ 0x646f_7261_6e64_6f6d,
        k0 ^ 0x6c79_6765_6e65_7261,
        k1 ^ 0x7465_6462_7974_6573,
    ];
    let mut count = 0_u64;
    for word in words {
        absorb(&mut state, word);
        count += 1;
    }
    // The last word contains the number of bytes.
    absorb(&mut state, (count * 8) << 56);
    state[2] ^= 0xff;
    (0..4).for_each(|_| round(&mut state));
    state.iter().fold(0, |hash, word| hash ^ word)
}

fn absorb(state: &mut [u64; 4], word: u64) {
    state[3] ^= word;
    (0..2).for_each(|_| round(state));
    state[0] ^= word;
}

fn round([a, b, c, d]: &mut [u64; 4]) {
    *a = a.wrapping_add(*b);
    *c = c.wrapping_add(*d);
    *b = b.rotate_left(13) ^ *a;
    *d = d.rotate_left(16) ^ *c;
    *a = a.rotate_left(32).wrapping_add(*d);
    *c = c.wrapping_add(*b);
    *d = d.rotate_left(21) ^ *a;
    *b = b.rotate_left(17) ^ *c;
    *c = c.rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::sip_hash;
    use core::hash::Hasher;

    #[test]
    fn hash_is_that_of_std() {
        for count in 0..9 {
            let words = (0..count).map(|word: u64| word.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            #[expect(deprecated, reason = "its replacement does not name the algorithm")]
            let mut hasher = core::hash::SipHasher::new_with_keys(7, 9);
            words.clone().for_each(|word| hasher.write(&word.to_le_bytes()));
            assert_eq!(sip_hash([7, 9], words), hasher.finish(), "{count}");
        }
    }
}
