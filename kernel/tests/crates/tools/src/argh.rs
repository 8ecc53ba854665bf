//! Parses a small command line.

use argh::FromArgs;

/// Copies files.
#[derive(Debug, FromArgs)]
struct Arguments {
    /// number of copies
    #[argh(option, short = 'n', default = "1")]
    count: u32,
    /// print each action
    #[argh(switch, short = 'v')]
    verbose: bool,
    #[argh(subcommand)]
    command: Command,
}

#[derive(Debug, FromArgs)]
#[argh(subcommand)]
enum Command {
    Copy(Copy),
    List(List),
}

/// Copies.
#[derive(Debug, FromArgs)]
#[argh(subcommand, name = "copy")]
struct Copy {
    /// the files
    #[argh(positional)]
    files: Vec<String>,
}

/// Lists.
#[derive(Debug, FromArgs)]
#[argh(subcommand, name = "list")]
struct List {}

pub fn run() -> crate_uses::Result {
    for line in ["-v copy a b", "-n 3 list", "-n x list", "--help", "copy --what", ""] {
        match Arguments::from_args(&["tool"], &line.split_whitespace().collect::<Vec<_>>()) {
            Ok(arguments) => println!("{arguments:?}"),
            Err(exit) => println!("{:?} {}", exit.status, exit.output),
        }
    }
    Ok(())
}
