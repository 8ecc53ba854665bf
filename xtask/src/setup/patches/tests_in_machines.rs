//! The patches to libtest: the runner on the host boots a machine for each test.
//!
//! libtest starts a process for each test where panics abort, with the name of the test in a variable. The
//! patched one takes that variable in every test executable. Without a name it lists the tests.

use super::Patch;

/// The first line of the list of tests that a test executable prints ([`crate::libtest`]). It is part of the
/// executable, which is how the runner recognises one.
pub(crate) const TEST_LIST: &str = "__HERMIT_TEST_LIST 1";

const TEST: &str = "test/src/lib.rs";

pub(super) const PATCHES: &[Patch] = &[
    Patch {
        file: TEST,
        old: "pub fn test_main_static(tests: &[&TestDescAndFn]) {
",
        new: "pub fn test_main_static(tests: &[&TestDescAndFn]) {
    match env::var(SECONDARY_TEST_INVOKER_VAR) {
        Ok(name) if name.is_empty() => return list_for_runner(tests),
        Ok(_) => return test_main_static_abort(tests),
        Err(_) => {}
    }
",
    },
    Patch {
        file: TEST,
        old: "/// Clones static values for putting into a dynamic vector, which test_main()
",
        new: "/// Lists all tests for the runner: a line with name, mode, `ignore` or nothing, and the reason, between tabs.
fn list_for_runner(tests: &[&TestDescAndFn]) {
    println!(\"__HERMIT_TEST_LIST 1\");
    for TestDescAndFn { desc, .. } in tests {
        let ignore = if desc.ignore { \"ignore\" } else { \"\" };
        let mode = match desc.should_panic {
            ShouldPanic::No => \"\",
            _ => \"should panic\",
        };
        let reason = desc.ignore_message.unwrap_or_default().replace(['\\n', '\\t'], \" \");
        println!(\"{}\\t{mode}\\t{ignore}\\t{reason}\", desc.name);
    }
}

/// Clones static values for putting into a dynamic vector, which test_main()
",
    },
    Patch {
        file: TEST,
        old: "#![allow(internal_features)]\n",
        new: "#![feature(rustc_attrs)]\n#![allow(internal_features)]\n",
    },
    // Where panics abort, the hook has the last word, else the test may catch panics, and join threads that
    // panicked.
    Patch {
        file: TEST,
        old: "fn run_test_in_spawned_subprocess(desc: TestDesc, runnable_test: RunnableTest) -> ! {
",
        new: "fn run_test_in_spawned_subprocess(desc: TestDesc, runnable_test: RunnableTest) -> ! {
    unsafe extern \"Rust\" {
        // Defined by the panic runtime.
        #[rustc_std_internal_symbol]
        safe fn __rust_panic_unwinds() -> bool;
    }
    if __rust_panic_unwinds() {
        let result = fold_err(catch_unwind(AssertUnwindSafe(|| runnable_test.run())));
        let result = calc_result(&desc, result.err().as_deref(), None, None);
        if let TrFailedMsg(message) = &result {
            eprintln!(\"{message}\");
        }
        let code = if let TrOk = result { test_result::TR_OK } else { ERROR_EXIT_CODE };
        process::exit(code);
    }

",
    },
];
