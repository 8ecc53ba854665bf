//! Demangling compared with the crate rustc-demangle, and of invalid names.

extern crate std;

use super::Demangled;
use proptest::collection::vec;
use proptest::{prop_assert, prop_assert_eq, proptest};
use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

fn shown(name: &str) -> String {
    Demangled(name).to_string()
}

/// The name demangled by rustc-demangle.
fn reference(name: &str) -> String {
    format!("{:#}", rustc_demangle::demangle(name))
}

#[test]
fn legacy_and_v0_names_are_demangled() {
    let names = [
        ("_ZN6faults6faults4null17h0123456789abcdefE", "faults::faults::null"),
        ("_ZN4core3fmt5Write10write_char17h0123456789abcdefE.llvm.123", "core::fmt::Write::write_char"),
        (
            "_ZN44_$LT$$RF$T$u20$as$u20$core..fmt..Display$GT$3fmt17h0123456789abcdefE",
            "<&T as core::fmt::Display>::fmt",
        ),
        ("_ZN1a28_$u7b$$u7b$closure$u7d$$u7d$17h0123456789abcdefE", "a::{{closure}}"),
        ("_ZN3foo3barE", "foo::bar"),
        ("_RNvNtCs1234_6faults6faults4null", "faults::faults::null"),
        ("_RNCNvNtCs1234_3std2rt10lang_starts_0B5_", "std::rt::lang_start::{closure#1}"),
        ("_RNvNCNKNvNvC1a1b1c0s_04_1VAL", "a::b::c::{K#0}::{closure#1}::1VAL"),
        ("_RNCNCNvC1a1b00", "a::b::{closure#0}::{closure#0}"),
        ("_RNSNvC1a1b6vtable", "a::b::{shim:vtable#0}"),
        (
            "_RNvXsc_NtNtCsg_4core3num5errorNtB5_13ParseIntErrorNtNtB9_3fmt5Debug3fmt",
            "<core::num::error::ParseIntError as core::fmt::Debug>::fmt",
        ),
        ("_RNvYReNtC1a1b1c", "<&str as a::b>::c"),
        ("_RNvMC1aDNtC1b1cEL_1d", "<dyn b::c>::d"),
        ("_RNvC1a3_1bc", "a::1bc"),
        ("memcpy", "memcpy"),
        ("", ""),
    ];
    for (name, expected) in names {
        assert_eq!(shown(name), expected);
        if !name.is_empty() {
            assert_eq!(reference(name), expected);
        }
    }
}

#[test]
fn generic_arguments_are_omitted() {
    let names = [
        ("_RINvNtCs1234_3std2rt10lang_startuEB2_", "std::rt::lang_start"),
        ("_RINvC1a1bKj1f_KpAhj3_TlmEFKCRhEuL_E", "a::b"),
        ("_RNvMC1aINtC1a1bhE1c", "<a::b>::c"),
        ("_RNvMC1aTlmE1b", "<(..)>::b"),
        ("_RNvMC1aSh1b", "<[u8]>::b"),
    ];
    for (name, expected) in names {
        assert_eq!(shown(name), expected);
        assert_ne!(reference(name), name, "not a valid name");
    }
}

#[test]
fn invalid_names_are_unchanged() {
    let deep = format!("_R{}C1a{}", "Nv".repeat(1000), "1b".repeat(1000));
    let names = [
        "_R",
        "_RC",
        "_RB_",
        "_RNvB_1a",
        "_RC9a",
        "_RNvC1a",
        "_RC99999999999999999999a",
        "_RC0",
        "_RC0_",
        "_RNvC01a",
        "_ZN",
        "_ZN9aE",
        "_ZN1a",
        "_ZNE",
        &deep,
    ];
    for name in names {
        assert_eq!(shown(name), name);
    }
    // Each back reference doubles the output.
    let bomb: String = (0..60).map(|_| "TB_B_E").collect();
    let _: String = shown(&format!("_RIC1a{bomb}E"));
}

proptest! {
    #[test]
    fn legacy_names_agree_with_rustc_demangle(parts in vec("[a-z_][a-zA-Z0-9_]{0,10}", 1..6), hash in "[0-9a-f]{16}") {
        let path: Vec<String> = parts.iter().map(|part| format!("{}{part}", part.len())).collect();
        let name = format!("_ZN{}17h{hash}E", path.concat());
        prop_assert_eq!(shown(&name), reference(&name));
    }

    #[test]
    fn v0_paths_agree_with_rustc_demangle(parts in vec("[a-z_][a-zA-Z0-9_]{0,10}", 1..20), closure in 0..3) {
        let path: Vec<String> = parts.iter().map(|part| format!("{}_{part}", part.len())).collect();
        let end = ["", "0", "s_0"][usize::try_from(closure).unwrap()];
        let spaces = format!("{}{}", if end.is_empty() { "" } else { "NC" }, "Nt".repeat(parts.len()));
        let name = format!("_R{spaces}Cs1x_4root{}{end}", path.concat());
        prop_assert_eq!(shown(&name), reference(&name));
    }

    #[test]
    fn any_name_is_accepted(name in "(_R|_ZN)[a-zA-Z0-9_$.ü]{0,60}") {
        let text = shown(&name);
        prop_assert!(!text.is_empty());
    }

    /// Combinations of valid elements, so that most of a name is parsed.
    #[test]
    fn any_combination_of_elements_is_accepted(
        parts in vec("Nv|NC|C1a|s_|M|X|Y|I|E|B_|B3_|1a|0|R|Q|S|T|F|Dp|L_|K|j1_|h|u|A", 0..40)
    ) {
        let text = shown(&format!("_R{}", parts.concat()));
        prop_assert!(!text.is_empty());
    }
}
