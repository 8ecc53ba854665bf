//! Arithmetic with integers: SHA-256 (FIPS 180-4), without the processor's SHA instructions.

use crate::rounds::{Loop, Outcome, Rounds};

/// The loop with a digest.
pub(crate) const LOOPS: [Loop; 1] = [Loop {
    name: "sha-256",
    title: "SHA-256 of 8 MiB",
    run: digest,
    checksums: [0x7d21_2b9c_884f_5c77, 0x59f4_10ae_5e17_9624],
}];

/// Size of a block in bytes.
const BLOCK: usize = 64;

/// First 32 bits of the fractional parts of the cube roots of the first 64 primes.
const CONSTANTS: [u32; 64] = [
    0x428a_2f98,
    0x7137_4491,
    0xb5c0_fbcf,
    0xe9b5_dba5,
    0x3956_c25b,
    0x59f1_11f1,
    0x923f_82a4,
    0xab1c_5ed5,
    0xd807_aa98,
    0x1283_5b01,
    0x2431_85be,
    0x550c_7dc3,
    0x72be_5d74,
    0x80de_b1fe,
    0x9bdc_06a7,
    0xc19b_f174,
    0xe49b_69c1,
    0xefbe_4786,
    0x0fc1_9dc6,
    0x240c_a1cc,
    0x2de9_2c6f,
    0x4a74_84aa,
    0x5cb0_a9dc,
    0x76f9_88da,
    0x983e_5152,
    0xa831_c66d,
    0xb003_27c8,
    0xbf59_7fc7,
    0xc6e0_0bf3,
    0xd5a7_9147,
    0x06ca_6351,
    0x1429_2967,
    0x27b7_0a85,
    0x2e1b_2138,
    0x4d2c_6dfc,
    0x5338_0d13,
    0x650a_7354,
    0x766a_0abb,
    0x81c2_c92e,
    0x9272_2c85,
    0xa2bf_e8a1,
    0xa81a_664b,
    0xc24b_8b70,
    0xc76c_51a3,
    0xd192_e819,
    0xd699_0624,
    0xf40e_3585,
    0x106a_a070,
    0x19a4_c116,
    0x1e37_6c08,
    0x2748_774c,
    0x34b0_bcb5,
    0x391c_0cb3,
    0x4ed8_aa4a,
    0x5b9c_ca4f,
    0x682e_6ff3,
    0x748f_82ee,
    0x78a5_636f,
    0x84c8_7814,
    0x8cc7_0208,
    0x90be_fffa,
    0xa450_6ceb,
    0xbef9_a3f7,
    0xc671_78f2,
];

/// First 32 bits of the fractional parts of the square roots of the first 8 primes.
const START: [u32; 8] =
    [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19];

fn digest(rounds: &Rounds) -> Outcome {
    let message: Vec<u8> = (0..=u8::MAX).cycle().take(rounds.scale(8 << 20)).collect();
    let work = |message: &Vec<u8>| {
        let [first, second, ..] = sha_256(message);
        u64::from(first) << 32 | u64::from(second)
    };
    rounds.run(|| &message, work)
}

/// Returns the digest of a message, as eight words.
fn sha_256(message: &[u8]) -> [u32; 8] {
    let mut blocks = message.chunks_exact(BLOCK);
    let state = blocks.by_ref().fold(START, compress);
    let rest = blocks.remainder();
    let mut padded = [0; 2 * BLOCK];
    padded[..rest.len()].copy_from_slice(rest);
    padded[rest.len()] = 0x80;
    // The padding ends with the length in bits, as 8 bytes.
    let end = (rest.len() + 9).next_multiple_of(BLOCK);
    padded[end - 8..end].copy_from_slice(&(message.len() as u64 * 8).to_be_bytes());
    padded[..end].chunks_exact(BLOCK).fold(state, compress)
}

/// Returns the state after another block (FIPS 180-4, section 6.2.2).
fn compress(state: [u32; 8], block: &[u8]) -> [u32; 8] {
    let mut words = [0_u32; 64];
    for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
        *word = bytes.iter().fold(0, |word, byte| word << 8 | u32::from(*byte));
    }
    for at in 16..64 {
        let (early, late) = (words[at - 15], words[at - 2]);
        let early = early.rotate_right(7) ^ early.rotate_right(18) ^ (early >> 3);
        let late = late.rotate_right(17) ^ late.rotate_right(19) ^ (late >> 10);
        words[at] = words[at - 16].wrapping_add(early).wrapping_add(words[at - 7]).wrapping_add(late);
    }
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = state;
    for (constant, word) in CONSTANTS.iter().zip(words) {
        let choice = (e & f) ^ (!e & g);
        let sum = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
        let first = h.wrapping_add(sum).wrapping_add(choice).wrapping_add(*constant).wrapping_add(word);
        let majority = (a & b) ^ (a & c) ^ (b & c);
        let second = (a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22)).wrapping_add(majority);
        (h, g, f, e) = (g, f, e, d.wrapping_add(first));
        (d, c, b, a) = (c, b, a, first.wrapping_add(second));
    }
    let mut next = [a, b, c, d, e, f, g, h];
    next.iter_mut().zip(state).for_each(|(word, before)| *word = word.wrapping_add(before));
    next
}

#[cfg(test)]
mod tests {
    use super::sha_256;

    #[test]
    fn digests_are_those_of_fips_180() {
        let abc = [
            0xba78_16bf,
            0x8f01_cfea,
            0x4141_40de,
            0x5dae_2223,
            0xb003_61a3,
            0x9617_7a9c,
            0xb410_ff61,
            0xf200_15ad,
        ];
        assert_eq!(sha_256(b"abc"), abc);
        let two_blocks = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
        assert_eq!(sha_256(two_blocks)[..2], [0x248d_6a61, 0xd206_38b8]);
    }
}
