//! Reports of errors, with sections and without colours.

use color_eyre::config::{HookBuilder, Theme};
use color_eyre::eyre::{Report, WrapErr, eyre};
use color_eyre::{Help, SectionExt};

fn parse(text: &str) -> Result<u8, Report> {
    text.parse().wrap_err_with(|| format!("cannot parse {text:?}"))
}

pub fn run() -> crate_uses::Result {
    let builder = HookBuilder::new().theme(Theme::new()).capture_span_trace_by_default(false);
    let (panics, errors) = builder.display_env_section(false).into_hooks();
    errors.install()?;
    println!("{:?}", parse("7")?);
    let error = parse("700").suggestion("use a number below 256").note("it was read from nowhere");
    println!("{:?}", error.with_section(|| "700".header("Input:")).err().ok_or("no error")?);
    let error = eyre!("first").wrap_err("second").with_warning(|| "a warning").error(std::fmt::Error);
    println!("{error:?}\n{error} {}", error.chain().count());
    std::panic::set_hook(Box::new(move |info| {
        let report = panics.panic_report(info).to_string();
        println!("{:?}", report.lines().find(|line| line.contains("Message:")));
    }));
    let caught = std::panic::catch_unwind(|| panic!("on purpose"));
    println!("{}", caught.is_err());
    Ok(())
}
