//! Sets of flags.

bitflags::bitflags! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    struct Mode: u32 {
        const READ = 1;
        const WRITE = 1 << 1;
        const EXECUTE = 1 << 4;
        const ALL = Self::READ.bits() | Self::WRITE.bits() | Self::EXECUTE.bits();
    }
}

pub fn run() -> crate_uses::Result {
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
