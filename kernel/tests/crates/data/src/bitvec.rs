//! Slices and vectors of bits.

use bitvec::prelude::{BitArray, BitVec, Lsb0, Msb0, bits, bitvec};
use bitvec::field::BitField;
use bitvec::view::BitView;

pub fn run() -> crate_uses::Result {
    let mut vector: BitVec<u8, Msb0> = bitvec![u8, Msb0; 0; 20];
    for index in (0..20).step_by(3) {
        vector.set(index, true);
    }
    println!("{vector} {} {:?}", vector.count_ones(), vector.iter_ones().collect::<Vec<_>>());
    vector[4..16].store_be(0xabc_u16);
    println!("{:#x} {:?}", vector[4..16].load_be::<u16>(), vector.as_raw_slice());
    let mut data = [0x12_u8, 0x34];
    data.view_bits_mut::<Lsb0>()[3..13].reverse();
    println!("{data:02x?}");
    let mut sieve = bitvec![usize, Lsb0; 1; 1000];
    sieve[..2].fill(false);
    for number in 2..32 {
        if sieve[number] {
            for multiple in (number * number..1000).step_by(number) {
                sieve.set(multiple, false);
            }
        }
    }
    println!("{} primes, the last {:?}", sieve.count_ones(), sieve.last_one());
    let array: BitArray<[u16; 2], Lsb0> = BitArray::new([0x00ff, 0x0ff0]);
    println!("{:?} {}", array.first_zero(), bits![0, 1, 1] == bits![0, 1, 1]);
    Ok(())
}
