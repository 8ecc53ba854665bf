//! Bits and flags.

use bitvec::field::BitField;
use bitvec::prelude::{BitArray, BitVec, Lsb0, Msb0, bits};
use bitvec::view::BitView;
use fixedbitset::FixedBitSet;

bitflags::bitflags! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    struct Mode: u32 {
        const READ = 1;
        const WRITE = 1 << 1;
        const EXECUTE = 1 << 4;
        const ALL = Self::READ.bits() | Self::WRITE.bits() | Self::EXECUTE.bits();
    }
}

/// Sets of flags.
pub fn bitflags() -> crate_uses::Result {
    let mode = Mode::READ | Mode::EXECUTE;
    println!("{mode:?} {:?} {:?} {:?}", !mode, mode & Mode::ALL, mode ^ Mode::ALL);
    println!("{:?} {:?}", Mode::from_bits(0b100), Mode::from_bits_truncate(0xff));
    println!("{:?}", mode.iter_names().map(|(name, flag)| (name, flag.bits())).collect::<Vec<_>>());
    for text in ["READ | WRITE", "0x11", "READ | NONE"] {
        println!("{:?}", bitflags::parser::from_str::<Mode>(text).map_err(|error| error.to_string()));
    }
    let mut changed = Mode::from_bits_retain(0x103);
    changed.toggle(Mode::READ);
    println!("{changed:?} {} {}", changed.contains(Mode::WRITE), changed.intersects(mode));
    Ok(())
}

/// Slices and vectors of bits.
pub fn bitvec() -> crate_uses::Result {
    use bitvec::prelude::bitvec;

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

/// Sets of small numbers.
pub fn fixedbitset() -> crate_uses::Result {
    let (mut even, mut squares) = (FixedBitSet::with_capacity(200), FixedBitSet::with_capacity(200));
    even.extend((0..200).step_by(2));
    squares.extend((0..15).map(|number| number * number));
    println!("{:?}", even.intersection(&squares).collect::<Vec<_>>());
    println!("{} {}", even.union(&squares).count(), even.symmetric_difference(&squares).count());
    let mut both = &even & &squares;
    both.toggle_range(10..20);
    println!("{:?} {} {}", both.ones().collect::<Vec<_>>(), both.is_subset(&even), both.count_ones(..50));
    println!("{:b}", both.difference(&squares).collect::<FixedBitSet>());
    Ok(())
}
