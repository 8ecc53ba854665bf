//! Finds the functions of an image that contain floating-point or vector instructions.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use iced_x86::CpuidFeature::{self, FPU, FPU287, FPU387, FXSR, MMX, SSE, SSE2, SSE3, XSAVE};
use iced_x86::Mnemonic::{Lfence, Mfence, Sfence};
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic};
use object::{Object, ObjectSection, ObjectSymbol, SectionKind};

/// CPUID features of the floating-point and vector units. An instruction is recognised by these features,
/// too, because some instructions of the units have no operand in the units' registers.
const FEATURES: [CpuidFeature; 9] = [FPU, FPU287, FPU387, FXSR, MMX, SSE, SSE2, SSE3, XSAVE];

/// Instructions of SSE that do not use vector registers.
const FENCES: [Mnemonic; 3] = [Lfence, Mfence, Sfence];

/// Pairs of a function's name and a floating-point or vector instruction in that function.
pub(crate) type Occurrences = BTreeSet<(String, Mnemonic)>;

/// Decodes all code of an image, which must have symbols. Returns the occurrences of floating-point and
/// vector instructions.
pub(crate) fn floating(image: &Path) -> Result<Occurrences> {
    let bytes = fs::read(image).with_context(|| format!("cannot read {}", image.display()))?;
    let file = object::File::parse(bytes.as_slice())?;
    let names: BTreeMap<u64, &str> =
        file.symbols().filter_map(|symbol| Some((symbol.address(), symbol.name().ok()?))).collect();
    ensure!(names.len() > 1, "{} has no symbols", image.display());
    let mut occurrences = Occurrences::new();
    for section in file.sections().filter(|section| section.kind() == SectionKind::Text) {
        occurrences.append(&mut floating_in(section.data()?, section.address(), &names)?);
    }
    Ok(occurrences)
}

/// Decodes code that is linked at `address`. Decoding restarts at each symbol, so that data between functions
/// cannot hide instructions.
fn floating_in(code: &[u8], address: u64, names: &BTreeMap<u64, &str>) -> Result<Occurrences> {
    let end = address + u64::try_from(code.len())?;
    let symbols = names.range(address + 1..end).map(|(start, _)| *start);
    let starts: Vec<u64> = [address].into_iter().chain(symbols).chain([end]).collect();
    let mut occurrences = Occurrences::new();
    for bounds in starts.array_windows::<2>() {
        let [from, to] = bounds.map(|bound| usize::try_from(bound - address));
        let name =
            names.range(..=bounds[0]).next_back().map_or("code before the first symbol", |(_, name)| name);
        let decoder = Decoder::with_ip(64, &code[from?..to?], bounds[0], DecoderOptions::NONE);
        for instruction in decoder.into_iter().filter(is_floating) {
            occurrences.insert((format!("{:#}", rustc_demangle::demangle(name)), instruction.mnemonic()));
        }
    }
    Ok(occurrences)
}

/// Returns true if an instruction belongs to the floating-point or vector units. Invalid instructions count,
/// too, because code must not contain them either.
fn is_floating(instruction: &Instruction) -> bool {
    let features = instruction.cpuid_features().iter().any(|feature| FEATURES.contains(feature));
    let mut registers = (0..instruction.op_count()).map(|operand| instruction.op_register(operand));
    let named =
        registers.any(|register| register.is_vector_register() || register.is_mm() || register.is_st());
    instruction.is_invalid() || named || (features && !FENCES.contains(&instruction.mnemonic()))
}

#[cfg(test)]
mod tests {
    use super::floating_in;
    use iced_x86::Mnemonic::{self, Addsd, Fld, Fxsave64, INVALID, Ldmxcsr, Movq, Vaesenc};
    use std::collections::BTreeMap;

    fn mnemonics(code: &[u8]) -> Vec<Mnemonic> {
        let occurrences = floating_in(code, 0x1000, &BTreeMap::new()).unwrap();
        occurrences.into_iter().map(|(_, mnemonic)| mnemonic).collect()
    }

    #[test]
    fn instructions_of_each_unit_are_found() {
        let cases: [(&[u8], Mnemonic); 7] = [
            (&[0xf2, 0x0f, 0x58, 0xc1], Addsd),
            (&[0xdd, 0x00], Fld),
            (&[0x0f, 0x6f, 0xc1], Movq),
            (&[0x0f, 0xae, 0x14, 0x24], Ldmxcsr),
            (&[0x48, 0x0f, 0xae, 0x04, 0x24], Fxsave64),
            (&[0xc4, 0xe2, 0x75, 0xdc, 0xc2], Vaesenc),
            (&[0x06], INVALID),
        ];
        for (code, mnemonic) in cases {
            assert_eq!(mnemonics(code), [mnemonic], "{code:x?}");
        }
    }

    #[test]
    fn integer_code_and_fences_do_not_count() {
        // mov rax, rbx; tzcnt rax, rax; lfence; mfence; pause; rdtsc; wrfsbase rax; ret
        let code = b"\x48\x89\xd8\xf3\x48\x0f\xbc\xc0\x0f\xae\xe8\x0f\xae\xf0\xf3\x90\x0f\x31\xf3\x48\x0f\xae\xd0\xc3";
        assert_eq!(mnemonics(code), []);
    }

    #[test]
    fn data_before_a_function_does_not_hide_its_first_instruction() {
        // The data looks like the start of `mov eax, NUMBER`. Without the restart at the symbol, the first
        // bytes of the function would be decoded as the number.
        let code = [0xb8, 0xf2, 0x0f, 0x58, 0xc1, 0xc3];
        let names = BTreeMap::from([(0x1000, "data"), (0x1001, "_ZN1a1bE")]);
        let occurrences = floating_in(&code, 0x1000, &names).unwrap();
        assert!(occurrences.contains(&("a::b".to_owned(), Addsd)), "{occurrences:?}");
    }
}
