//! Templates with helpers and partials.

use handlebars::{Handlebars, handlebars_helper};
use serde::Serialize;

#[derive(Serialize)]
struct Page {
    title: String,
    items: Vec<(String, u32)>,
}

handlebars_helper!(twice: |number: u64| number * 2);

pub fn run() -> crate_uses::Result {
    let mut registry = Handlebars::new();
    registry.register_helper("twice", Box::new(twice));
    registry.register_partial("item", "{{@index}}: {{this.[0]}} {{twice this.[1]}}\n")?;
    registry.register_template_string("page", "{{title}} {{{title}}}\n{{#each items}}{{> item}}{{else}}none{{/each}}{{#if items}}some{{/if}}")?;
    let items = vec![("a".to_owned(), 1), ("b".to_owned(), 21)];
    println!("{}", registry.render("page", &Page { title: "<&>".to_owned(), items })?);
    println!("{}", registry.render("page", &Page { title: String::new(), items: vec![] })?);
    registry.set_strict_mode(true);
    println!("{:?}", registry.render_template("{{missing}}", &[1]).is_err());
    println!("{}", registry.register_template_string("bad", "{{#each x}}").is_err());
    Ok(())
}
