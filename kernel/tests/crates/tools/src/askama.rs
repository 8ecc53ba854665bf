//! Templates that are compiled.

use askama::Template;

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

pub fn run() -> crate_uses::Result {
    let page = Page { title: "Fish & <Chips>", items: vec![("fish", 12.5), ("\"chips\"", 3.0)], raw: "<hr>" };
    println!("{}", page.render()?);
    println!("{}", Page { title: "", items: vec![], raw: "" });
    Ok(())
}
