//! Renders templates: inheritance, macros, filters of its own and errors.

use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior, context};
use serde::Serialize;

#[derive(Serialize)]
struct Item {
    name: &'static str,
    price: f64,
}

pub fn run() -> crate_uses::Result {
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
    let items = [Item { name: "tea", price: 2.5 }, Item { name: "gum", price: 0.5 }, Item { name: "a<b", price: 12.0 }];
    let page = templates.get_template("page.html")?;
    println!("{}", page.render(context! { title => "x & y", items })?);
    println!("{}", page.render(context! { title => "empty", items => Vec::<u8>::new() })?);
    for text in ["{{ fail() }}", "{{ 1 / 0 }}", "{% if %}", "{{ [3, 1, 2]|sort|join('-') }} {{ 7 // 2 }} {{ 'b' in 'abc' }}"] {
        println!("{:?}", templates.render_str(text, ()).map_err(|error| error.to_string()));
    }
    templates.set_undefined_behavior(UndefinedBehavior::Strict);
    println!("{:?}", templates.render_str("{{ nothing }}", ()).map_err(|error| error.kind()));
    println!("{:?}", templates.compile_expression("items|length * 2")?.eval(context! { items => [1, 2] })?);
    Ok(())
}
