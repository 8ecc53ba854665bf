//! Runs the fuzz targets on their seeds and their corpora: without a fuzzer, on a stable compiler.

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    #[test]
    fn all_seeds_and_corpora_pass_their_target() {
        for folder in ["seeds", "corpus"] {
            pass(&format!("{folder}/stack"), net_fuzz::stack);
            pass(&format!("{folder}/connection"), net_fuzz::connection);
            pass(&format!("{folder}/names"), net_fuzz::names);
        }
    }

    fn pass(folder: &str, target: fn(&[u8])) {
        let inputs = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).unwrap();
        let inputs: Vec<_> = inputs.map(|input| input.unwrap().path()).collect();
        assert!(!inputs.is_empty(), "{folder}");
        for input in inputs {
            println!("{}", input.display());
            target(&fs::read(input).unwrap());
        }
    }
}
