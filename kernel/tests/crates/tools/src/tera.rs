//! Templates with inheritance, macros and own filters.

use std::collections::HashMap;

use tera::{Context, Tera, Value};

pub fn run() -> crate_uses::Result {
    let mut tera = Tera::default();
    tera.add_raw_templates([
        ("base.html", "[{% block content %}{% endblock %}]"),
        ("macros.html", "{% macro row(name, price=0) %}{{ name }}:{{ price | round(precision=1) }};{% endmacro %}"),
        (
            "page.html",
            "{% extends \"base.html\" %}{% import \"macros.html\" as m %}{% block content %}{{ title | upper }}\
             {% for item in items | sort(attribute=\"price\") %}{{ m::row(name=item.name, price=item.price) }}{% endfor %}\
             {% set total = 1 + 2 * 3 %}{{ total }}{{ title | stars(count=3) }}{% endblock %}",
        ),
    ])?;
    tera.register_filter("stars", |value: &Value, arguments: &HashMap<String, Value>| {
        let count = arguments.get("count").and_then(Value::as_u64).unwrap_or(1);
        Ok(format!("{}{}", value.as_str().unwrap_or_default(), "*".repeat(count as usize)).into())
    });
    let items = [("tea", 2.55), ("cake & more", 1.21)];
    let items = items.map(|(name, price)| HashMap::from([("name", Value::from(name)), ("price", Value::from(price))]));
    let mut context = Context::new();
    context.insert("title", "<menu>");
    context.insert("items", &items);
    println!("{}", tera.render("page.html", &context)?);
    println!("{:?}", tera.render_str("{{ none }}", &context).map_err(|error| error.to_string()));
    println!("{}", tera.add_raw_template("bad", "{% if %}").is_err());
    Ok(())
}
