//! A registry that is filled by the modules of a program before `main`.

struct Plugin {
    name: &'static str,
    run: fn(u32) -> u32,
}

inventory::collect!(Plugin);

inventory::submit! {
    Plugin { name: "double", run: |number| number * 2 }
}

inventory::submit! {
    Plugin { name: "square", run: |number| number * number }
}

mod other {
    inventory::submit! {
        super::Plugin { name: "add one", run: |number| number + 1 }
    }
}

pub fn run() -> crate_uses::Result {
    let mut plugins: Vec<&Plugin> = inventory::iter::<Plugin>.into_iter().collect();
    plugins.sort_by_key(|plugin| plugin.name);
    for plugin in plugins {
        println!("{}: {}", plugin.name, (plugin.run)(7));
    }
    Ok(())
}
