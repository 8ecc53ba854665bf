//! Converts names between conventions.

use heck::{ToKebabCase, ToLowerCamelCase, ToPascalCase, ToShoutySnakeCase, ToSnakeCase, ToTitleCase, ToTrainCase};

pub fn run() -> crate_uses::Result {
    for name in ["XMLHttpRequest", "some_words here", "ΦιλοΣοφία-ὕδωρ", "abc123DEF456", "", "a__b--c"] {
        println!("{} {} {}", name.to_snake_case(), name.to_kebab_case(), name.to_lower_camel_case());
        println!("{} {} {}", name.to_pascal_case(), name.to_shouty_snake_case(), name.to_train_case());
        println!("{}", name.to_title_case());
    }
    Ok(())
}
