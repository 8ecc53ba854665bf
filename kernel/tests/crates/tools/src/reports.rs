//! Reports of errors.

use std::error::Error;
use std::fmt;

use color_eyre::config::{HookBuilder, Theme};
use color_eyre::{Help, SectionExt};
use eyre::{EyreHandler, Report, WrapErr, bail, eyre};

fn byte(text: &str) -> Result<u8, Report> {
    text.parse().wrap_err_with(|| format!("cannot parse {text:?}"))
}

/// Reports of errors, with sections and without colours.
pub fn color_eyre() -> crate_uses::Result {
    let builder = HookBuilder::new().theme(Theme::new()).capture_span_trace_by_default(false);
    let (panics, errors) = builder.display_env_section(false).into_hooks();
    errors.install()?;
    println!("{:?}", byte("7")?);
    let error = byte("700").suggestion("use a number below 256").note("it was read from nowhere");
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

struct Handler;

impl EyreHandler for Handler {
    fn debug(&self, error: &(dyn Error + 'static), out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "report: {error}")?;
        let mut source = error.source();
        while let Some(error) = source {
            write!(out, " <- {error}")?;
            source = error.source();
        }
        Ok(())
    }
}

fn small_number(text: &str) -> eyre::Result<u8> {
    if text.is_empty() {
        bail!("nothing to parse");
    }
    text.parse().wrap_err_with(|| format!("cannot parse {text}"))
}

/// Errors with context, and a report of its own.
pub fn eyre() -> crate_uses::Result {
    eyre::set_hook(Box::new(|_| Box::new(Handler)))?;
    for text in ["5", "500", ""] {
        println!("{:?}", small_number(text).wrap_err("failed"));
    }
    let error = eyre!("first").wrap_err("second");
    println!("{error} {:?}", error.chain().map(ToString::to_string).collect::<Vec<_>>());
    println!("{}", error.handler().is::<Handler>());
    Ok(())
}
