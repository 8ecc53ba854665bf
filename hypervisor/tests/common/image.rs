//! Image files of guests without a kernel.

use hermit_interface::image::sample::{ProgramHeader, Sample};

/// Address of the code in the image, and its offset in the file.
const CODE_OFFSET: u16 = 0x8000;

/// Builds the file of an image whose entry point is `code`. The segment of the code has `size` bytes.
pub(crate) fn with_code(code: &[u8], size: u16) -> Vec<u8> {
    assert!(code.len() <= usize::from(size), "{} bytes of instructions", code.len());
    let mut sample = Sample::default();
    sample.header.entry = CODE_OFFSET.into();
    // Segments are in ascending order; the code is the last one.
    sample.segments.swap(1, 2);
    let [_, data, last, ..] = &mut sample.segments;
    *last = ProgramHeader {
        offset: CODE_OFFSET.into(),
        vaddr: CODE_OFFSET.into(),
        filesz: size.into(),
        memsz: size.into(),
        ..*last
    };
    assert!(data.vaddr + data.memsz <= last.vaddr, "segments overlap");
    sample.relocations.clear();
    sample.dynamic.clear();
    let mut file = sample.build();
    file.resize(CODE_OFFSET.into(), 0);
    file.extend(code);
    file.resize(usize::from(CODE_OFFSET) + usize::from(size), 0);
    file
}
