//! Images that are valid except for some fields of their ELF structures, so that nearly every input passes
//! the first checks.

use hermit_interface::image::sample::Sample;

/// Size in bytes of a relocation in the input: where, kind, addend.
const RELOCATION: usize = 4;

/// Size in bytes of a change in the input: field, operation, value.
const CHANGE: usize = 8;

/// Maximum number of changes. With more changes, hardly any image could still be loaded.
const MAX_CHANGES: usize = 8;

/// Places of arrays of structures in the file: start, number, and the sizes of a structure's fields (ELF-64
/// Object File Format).
const STRUCTURES: [(usize, usize, &[usize]); 8] = [
    // The file header, its identification byte by byte.
    (0, 1, &[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 4, 8, 8, 8, 4, 2, 2, 2, 2, 2, 2]),
    // Program headers.
    (0x40, 7, &[4, 4, 8, 8, 8, 8, 8, 8]),
    // The note.
    (0x400, 1, &[4, 4, 4, 8, 4]),
    // Relocations.
    (0x800, 6, &[8, 4, 4, 8]),
    // The dynamic section, without the entries for packed relocations.
    (0x2000, 4, &[8, 8]),
    // Section headers.
    (0x3840, 3, &[4, 4, 8, 8, 8, 8, 4, 4, 8, 8]),
    // Packed relocations, and the rest of the dynamic section. New structures come last: inputs name fields
    // by number.
    (0xc00, 6, &[8]),
    (0x2040, 3, &[8, 8]),
];

/// Returns the sample image with additional relocations, whose number is the first byte of `data`, and with
/// changed fields.
pub(crate) fn image(data: &[u8]) -> Vec<u8> {
    let mut sample = Sample::default();
    let (count, data) = data.split_first().map_or((0, data), |(count, rest)| (usize::from(*count % 5), rest));
    let (relocations, changes) = data.split_at_checked(count * RELOCATION).unwrap_or_default();
    let (relocations, _) = relocations.as_chunks::<RELOCATION>();
    sample.relocations.extend(relocations.iter().map(|&[low, high, kind, addend]| {
        [u64::from(u16::from_le_bytes([low, high])), u64::from(kind), u64::from(addend) << 8]
    }));
    let size = sample.relocations.len() * 24;
    if let Some(entry) = sample.dynamic.iter_mut().find(|[tag, _]| *tag == DT_RELASZ) {
        entry[1] = size as u64;
    }
    let mut file = sample.build();
    let fields: Vec<_> = fields().collect();
    let (changes, _) = changes.as_chunks::<CHANGE>();
    for change in changes.iter().take(MAX_CHANGES) {
        apply(*change, &fields, &mut file);
    }
    file
}

/// Tag of the size of all relocations.
const DT_RELASZ: u64 = 8;

/// Returns the offset and the size of each field.
fn fields() -> impl Iterator<Item = (usize, usize)> {
    STRUCTURES.into_iter().flat_map(|(start, number, sizes)| {
        let all = sizes.iter().cycle().take(number * sizes.len());
        all.scan(start, |next, &size| {
            let offset = *next;
            *next += size;
            Some((offset, size))
        })
    })
}

/// Changes a field: sets it to a value or a number of pages, adds to it, shifts a bit, or copies another
/// field.
fn apply(change: [u8; CHANGE], fields: &[(usize, usize)], file: &mut [u8]) {
    let [low, high, operation, other, value @ ..] = change;
    let field = |number: usize| fields.get(number % fields.len()).copied().unwrap_or_default();
    let (offset, size) = field(usize::from(u16::from_le_bytes([low, high])));
    let old = read(file, (offset, size));
    let value = u64::from(u32::from_le_bytes(value));
    let new = match operation % 6 {
        0 => value,
        1 => value << 12,
        2 => old.wrapping_add(value),
        3 => old.wrapping_sub(value),
        4 => old ^ 1 << (value % 64),
        _ => read(file, field(usize::from(other))),
    };
    if let Some(place) = file.get_mut(offset..offset + size) {
        place.copy_from_slice(new.to_le_bytes().get(..size).unwrap_or_default());
    }
}

fn read(file: &[u8], (offset, size): (usize, usize)) -> u64 {
    let mut bytes = [0; 8];
    let field = file.get(offset..offset + size).unwrap_or_default();
    bytes.iter_mut().zip(field).for_each(|(to, from)| *to = *from);
    u64::from_le_bytes(bytes)
}
