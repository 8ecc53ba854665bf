//! Runs the fuzz target on its seeds and its corpus: without a fuzzer, on a stable compiler.

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    #[test]
    fn all_seeds_and_the_corpus_pass() {
        for folder in ["seeds/stack", "corpus/stack"] {
            let inputs = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).unwrap();
            let inputs: Vec<_> = inputs.map(|socket| socket.unwrap().path()).collect();
            assert!(!inputs.is_empty(), "{folder}");
            for input in inputs {
                println!("{}", input.display());
                net_fuzz::stack(&fs::read(input).unwrap());
            }
        }
    }
}
