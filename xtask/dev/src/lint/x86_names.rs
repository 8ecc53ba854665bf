//! Lint: the kernel uses the names of x86 registers, instructions and interrupt controllers only in the
//! folders that implement a processor or a platform.

use super::rules::Violation;
use super::scan;

/// The x86 names, in lower case. [`check`] compares them with the words of identifiers.
const NAMES: &[&str] = &[
    // Registers.
    "cr0", "cr2", "cr3", "cr4", "cr8", "efer", "eflags", "gdtr", "idtr", "msr", "mxcsr", "rax", "rbp", "rbx",
    "rcx", "rdi", "rdx", "rflags", "rip", "rsi", "rsp", "tsc", "xcr0", // Instructions.
    "cpuid", "fxrstor", "fxsave", "hlt", "invlpg", "iret", "iretq", "lgdt", "lidt", "ltr", "rdfsbase",
    "rdgsbase", "rdmsr", "rdrand", "rdseed", "rdtsc", "rdtscp", "swapgs", "sysret", "wrfsbase", "wrgsbase",
    "wrmsr", "xrstor", "xsave", // Structures.
    "gdt", "idt", "ldt", "pdpt", "pml4", "pml5", "tss",
    // Interrupt controllers. `IoApic` is found by its second word, `apic`.
    "apic", "ioapic", "lapic", "x2apic", "xapic", "i8259",
];

/// Paths where x86 names are allowed: the implementations of processors and platforms; code in which a
/// specification names the fields of structures (ACPI and MultiProcessor tables, KVM's clock); and the test
/// programs, which execute x86 instructions themselves.
const ALLOWED: [&str; 5] = [
    "kernel/hal/src/arch/",
    "kernel/hal/src/platform/",
    "kernel/firmware/",
    "kernel/clock/src/paravirtual.rs",
    "kernel/tests/",
];

/// Returns the x86 names in a file of the kernel. Searches code and unit tests, but not comments and
/// literals. A file outside of the kernel, or in [`ALLOWED`], has no violations.
pub(super) fn check(file: &str, text: &str) -> Vec<Violation> {
    if !file.starts_with("kernel/") || ALLOWED.iter().any(|allowed| file.starts_with(allowed)) {
        return Vec::new();
    }
    let code = scan::code_only(text);
    let lines = code.split(|&byte| byte == b'\n').enumerate();
    lines
        .flat_map(|(index, line)| {
            let line = String::from_utf8_lossy(line);
            let found: Vec<String> = words(&line).filter(|word| NAMES.contains(&word.as_str())).collect();
            found.into_iter().map(move |name| {
                let message = format!("`{name}` is x86's: it belongs into hal's arch or platform folder");
                Violation::new(file, index, message)
            })
        })
        .collect()
}

/// Returns the words of the identifiers in a line of code, in lower case. `_` separates words. An upper-case
/// letter begins a new word after a lower-case letter (`LocalApic`). After a digit it does so only if a
/// lower-case letter follows (`Cr3Flags` is split before `F`, `X2APIC` is not split).
fn words(line: &str) -> impl Iterator<Item = String> {
    let letters: Vec<char> = line.chars().collect();
    let mut separated = String::new();
    for (index, &letter) in letters.iter().enumerate() {
        let previous = index.checked_sub(1).map_or(' ', |index| letters[index]);
        let is_capital = letters.get(index + 1).is_some_and(|next| next.is_lowercase());
        if letter.is_uppercase() && (previous.is_lowercase() || previous.is_numeric() && is_capital) {
            separated.push(' ');
        }
        separated.push(if letter.is_alphanumeric() { letter } else { ' ' });
    }
    separated.split_whitespace().map(str::to_lowercase).collect::<Vec<_>>().into_iter()
}

#[cfg(test)]
mod tests {
    use super::{check, words};

    fn messages(file: &str, code: &str) -> Vec<String> {
        check(file, code).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn words_are_parts_of_identifiers() {
        let line = "let read_cr3 = LocalApic::X2APIC_ID[wall_clock_tsc] & Cr3Flags::empty();";
        let expected = [
            "let", "read", "cr3", "local", "apic", "x2apic", "id", "wall", "clock", "tsc", "cr3", "flags",
            "empty",
        ];
        assert_eq!(words(line).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn x86_names_in_code_are_reported() {
        for (code, name) in [
            ("//! A.\nlet root = Cr3::read();", "cr3"),
            ("//! A.\nfn has_local_apic() {}", "apic"),
            ("//! A.\nconst PML4_ENTRIES: usize = 512;", "pml4"),
            ("//! A.\nlet ticks = unsafe { _rdtsc() };", "rdtsc"),
            ("//! A.\nuse x86_64::structures::idt::Entry;", "idt"),
        ] {
            for file in ["kernel/src/init.rs", "kernel/hal/src/thread.rs", "kernel/io/src/tests.rs"] {
                let found = messages(file, code);
                assert!(
                    found.len() == 1 && found[0].starts_with(&format!("{file}:2: `{name}`")),
                    "{found:?}"
                );
            }
        }
    }

    #[test]
    fn comments_literals_and_parts_of_words_are_no_x86_names() {
        let code =
            "//! CR3 and the APIC.\nlet scripts = \"cr3\"; // hlt\nlet (apical, strip, cr33) = (1, 2, 3);\n";
        assert!(messages("kernel/src/init.rs", code).is_empty());
    }

    #[test]
    fn arch_and_platform_folders_may_use_x86_names() {
        for file in [
            "kernel/hal/src/arch/x86_64/trap.rs",
            "kernel/hal/src/platform/pc.rs",
            "kernel/firmware/src/acpi/madt.rs",
            "hypervisor/src/engine/kvm/vcpu.rs",
            "loader/src/entry.rs",
        ] {
            assert!(messages(file, "let root = cr3();").is_empty(), "{file}");
        }
    }
}
