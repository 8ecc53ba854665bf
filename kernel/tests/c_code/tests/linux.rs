//! On the development machine the program prints what `cargo xtask test` expects of it in a guest.

#[cfg(test)]
mod tests {
    use std::process::Command;

    #[test]
    fn program_prints_what_is_expected_of_guests() {
        let mut program = Command::new(env!("CARGO_BIN_EXE_c_code"));
        let program = program.env("GREETING", "hello").output().expect("it starts");
        assert!(program.status.success(), "{program:?}");
        let output = String::from_utf8(program.stdout).expect("it prints text");
        let is_built = |line: &&str| {
            (cfg!(has_cxx) || !line.contains("C++")) && (cfg!(has_fortran) || !line.contains("Fortran"))
        };
        let mut expected: Vec<_> = include_str!("../expected.txt").lines().filter(is_built).collect();
        // C's buffer is written at exit where standard output is no terminal, so the order of C and Rust
        // differs.
        let mut printed: Vec<_> = output.lines().collect();
        printed.sort_unstable();
        expected.sort_unstable();
        assert_eq!(printed, expected);
    }
}
