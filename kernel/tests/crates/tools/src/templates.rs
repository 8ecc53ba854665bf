//! Templates.

use std::collections::HashMap;

use askama::Template;
use handlebars::{Handlebars, handlebars_helper};
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior, context};
use serde::Serialize;
use tera::{Context, Tera, Value};

/// Templates that are compiled.
pub fn askama() -> crate_uses::Result {
    #[derive(Template)]
    #[template(
        ext = "html",
        source = "<h1>{{ title }}</h1>\n{% for item in items %}{{ loop.index }}. {{ item.0 }}: {{ \"{:.2}\"|format(item.1) }}\
              {% if item.1 > 10.0 %} (dear){% endif %}\n{% else %}nothing\n{% endfor %}{{ raw|safe }}"
    )]
    struct Page<'a> {
        title: &'a str,
        items: Vec<(&'a str, f64)>,
        raw: &'a str,
    }

    let page = Page { title: "Fish & <Chips>", items: vec![("fish", 12.5), ("\"chips\"", 3.0)], raw: "<hr>" };
    println!("{}", page.render()?);
    println!("{}", Page { title: "", items: vec![], raw: "" });
    Ok(())
}

handlebars_helper!(twice: |number: u64| number * 2);

/// Templates with helpers and partials.
pub fn handlebars() -> crate_uses::Result {
    #[derive(Serialize)]
    struct Page {
        title: String,
        items: Vec<(String, u32)>,
    }

    let mut registry = Handlebars::new();
    registry.register_helper("twice", Box::new(twice));
    registry.register_partial("item", "{{@index}}: {{this.[0]}} {{twice this.[1]}}\n")?;
    registry.register_template_string(
        "page",
        "{{title}} {{{title}}}\n{{#each items}}{{> item}}{{else}}none{{/each}}{{#if items}}some{{/if}}",
    )?;
    let items = vec![("a".to_owned(), 1), ("b".to_owned(), 21)];
    println!("{}", registry.render("page", &Page { title: "<&>".to_owned(), items })?);
    println!("{}", registry.render("page", &Page { title: String::new(), items: vec![] })?);
    registry.set_strict_mode(true);
    println!("{:?}", registry.render_template("{{missing}}", &[1]).is_err());
    println!("{}", registry.register_template_string("bad", "{{#each x}}").is_err());
    Ok(())
}

#[derive(Serialize)]
struct Item {
    name: &'static str,
    price: f64,
}

/// Renders templates: inheritance, macros, filters of its own and errors.
pub fn minijinja() -> crate_uses::Result {
    let mut templates = Environment::new();
    templates.add_template("base", "<{% block title %}none{% endblock %}> {% block body %}{% endblock %}")?;
    templates.add_template(
        "page.html",
        "{% extends 'base' %}{% block title %}{{ super() }}: {{ title }}{% endblock %}{% block body %}\
         {% macro row(item) %}[{{ item.name|upper }} {{ item.price|cents }}]{% endmacro %}\
         {% for item in items if item.price > 1 %}{{ loop.index }}{{ row(item) }}{% else %}-{% endfor %}{% endblock %}",
    )?;
    templates.add_filter("cents", |price: f64| format!("{:.0}", price * 100.0));
    templates.add_function("fail", || Err::<u8, _>(Error::new(ErrorKind::InvalidOperation, "as asked")));
    let items = [
        Item { name: "tea", price: 2.5 },
        Item { name: "gum", price: 0.5 },
        Item { name: "a<b", price: 12.0 },
    ];
    let page = templates.get_template("page.html")?;
    println!("{}", page.render(context! { title => "x & y", items })?);
    println!("{}", page.render(context! { title => "empty", items => Vec::<u8>::new() })?);
    for text in [
        "{{ fail() }}",
        "{{ 1 / 0 }}",
        "{% if %}",
        "{{ [3, 1, 2]|sort|join('-') }} {{ 7 // 2 }} {{ 'b' in 'abc' }}",
    ] {
        println!("{:?}", templates.render_str(text, ()).map_err(|error| error.to_string()));
    }
    templates.set_undefined_behavior(UndefinedBehavior::Strict);
    println!("{:?}", templates.render_str("{{ nothing }}", ()).map_err(|error| error.kind()));
    println!("{:?}", templates.compile_expression("items|length * 2")?.eval(context! { items => [1, 2] })?);
    Ok(())
}

/// Templates with inheritance, macros and own filters.
pub fn tera() -> crate_uses::Result {
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
    let items = items
        .map(|(name, price)| HashMap::from([("name", Value::from(name)), ("price", Value::from(price))]));
    let mut context = Context::new();
    context.insert("title", "<menu>");
    context.insert("items", &items);
    println!("{}", tera.render("page.html", &context)?);
    println!("{:?}", tera.render_str("{{ none }}", &context).map_err(|error| error.to_string()));
    println!("{}", tera.add_raw_template("bad", "{% if %}").is_err());
    Ok(())
}
