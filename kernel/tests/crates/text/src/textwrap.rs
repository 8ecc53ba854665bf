//! Wraps, fills and indents text.

use textwrap::{Options, WrapAlgorithm, dedent, fill, indent, wrap};

const TEXT: &str = "Memory safety without garbage collection, concurrency without data races, and abstraction \
                    without overhead: zero-cost abstractions – größer werden.";

pub fn run() -> crate_uses::Result {
    for width in [16, 28, 60] {
        println!("{}\n", fill(TEXT, width));
        let first_fit = Options::new(width).wrap_algorithm(WrapAlgorithm::FirstFit).initial_indent("* ");
        println!("{:?}", wrap(TEXT, first_fit.subsequent_indent("  ")));
    }
    print!("{}", indent(&dedent("    a\n      b\n    c\n"), "> "));
    println!("{:?}", textwrap::unfill("a b\nc d\n"));
    Ok(())
}
