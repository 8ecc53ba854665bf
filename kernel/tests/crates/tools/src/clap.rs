//! Parses command lines, by derived and by built parsers; prints help and errors.

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgGroup, Args, Command, Parser, Subcommand, ValueEnum, value_parser};

#[derive(Debug, Parser)]
#[command(name = "tool", version = "1.2.3", about = "Copies files")]
struct Arguments {
    /// Number of copies
    #[arg(short, long, default_value_t = 1, value_parser = value_parser!(u32).range(1..=9))]
    count: u32,
    /// Print each action; twice for more
    #[arg(short, long, action = ArgAction::Count, global = true)]
    verbose: u8,
    #[arg(long, value_enum, default_value_t)]
    color: Color,
    #[command(subcommand)]
    action: Action,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Color {
    #[default]
    Auto,
    Never,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Copies files
    Copy(CopyArguments),
    /// Lists folders
    List { folders: Vec<std::path::PathBuf> },
}

#[derive(Args, Debug)]
struct CopyArguments {
    #[arg(required = true, num_args = 1..=3)]
    files: Vec<String>,
    #[arg(long, requires = "force")]
    to: Option<String>,
    #[arg(long)]
    force: bool,
}

fn built() -> Command {
    let pair =
        |text: &str| text.split_once('=').map(|(key, value)| (key.to_owned(), value.len())).ok_or("no =");
    Command::new("built")
        .arg(Arg::new("set").short('D').action(ArgAction::Append).value_parser(pair))
        .arg(Arg::new("one").long("one").action(ArgAction::SetTrue))
        .arg(Arg::new("other").long("other").action(ArgAction::SetTrue))
        .group(ArgGroup::new("either").args(["one", "other"]).required(true))
}

pub fn run() -> crate_uses::Result {
    let lines = [
        "-n3",
        "-c 3 -vv list a b",
        "copy",
        "-c 12 list",
        "--color sometimes list",
        "lst",
        "copy a --to b",
        "copy a --to b --force -v",
    ];
    for line in lines {
        match Arguments::try_parse_from(["tool"].into_iter().chain(line.split_whitespace())) {
            Ok(arguments) => println!("{arguments:?}"),
            Err(error) => println!("{:?}: {error}", error.kind()),
        }
    }
    for line in ["--help", "copy --help", "--version"] {
        let parsed = Arguments::try_parse_from(["tool"].into_iter().chain(line.split_whitespace()));
        println!("{}", parsed.err().ok_or("no help")?);
    }
    let matches = built().try_get_matches_from(["built", "-Da=b", "-D", "c=def", "--other"])?;
    let pairs: Vec<_> = matches.get_many::<(String, usize)>("set").ok_or("no pairs")?.collect();
    println!("{pairs:?} {}", matches.get_flag("other"));
    let error = built().try_get_matches_from(["built", "--one", "--other"]).err().map(|error| error.kind());
    println!("{}", error == Some(ErrorKind::ArgumentConflict));
    println!("{}", built().try_get_matches_from(["built", "-Dx", "--one"]).err().ok_or("no error")?);
    Ok(())
}
