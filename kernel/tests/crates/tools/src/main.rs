//! Crates for command lines, errors, logs, settings, templates and scripts.

crate_uses::crate_uses! {
    "anyhow": anyhow,
    "argh": argh,
    "askama": askama,
    "clap": clap,
    "color-eyre": color_eyre,
    "config": config,
    "console": console,
    "dotenvy": dotenvy,
    "env_logger": env_logger,
    "eyre": eyre,
    "figment": figment,
    "handlebars": handlebars,
    "inventory": inventory,
    "log": log,
    "log4rs": log4rs,
    "minijinja": minijinja,
    "proptest": proptest,
    "quickcheck": quickcheck,
    "rhai": rhai,
    "sysinfo": sysinfo,
    "tera": tera,
    "thiserror": thiserror,
    "tracing": tracing,
    "tracing-subscriber": tracing_subscriber,
    "wasmi": wasmi,
}

mod settings;
mod sink;
