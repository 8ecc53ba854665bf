//! Runs scripts, with functions and types of the program, and limits.

use rhai::{Dynamic, Engine, Scope};

#[derive(Clone)]
struct Counter(i64);

pub fn run() -> crate_uses::Result {
    let mut engine = Engine::new();
    engine.set_max_call_levels(32);
    engine.register_type_with_name::<Counter>("Counter").register_fn("counter", || Counter(0));
    engine.register_fn("add", |counter: &mut Counter, number: i64| counter.0 += number);
    engine.register_get("value", |counter: &mut Counter| counter.0);
    engine.on_print(|text| println!("script: {text}"));
    let failed = |error: Box<rhai::EvalAltResult>| error.to_string();
    let script = "
        fn fibonacci(number) { if number < 2 { number } else { fibonacci(number - 1) + fibonacci(number - 2) } }
        let counter = counter();
        for number in 0..10 { counter.add(fibonacci(number)); }
        print(`sum ${counter.value}`);
        let words = \"one two three\".split(' ').map(|word| word.len);
        #{ words: words, factor: factor * 2.5, text: \"x\".to_upper() + 'y' }";
    let mut scope = Scope::new();
    scope.push("factor", 4.0_f64);
    let map = engine.eval_with_scope::<rhai::Map>(&mut scope, script).map_err(failed)?;
    println!("{map:?} {}", scope.len());
    let tree = engine.compile("fn twice(x) { x * 2 }").map_err(|error| error.to_string())?;
    let twice: i64 = engine.call_fn(&mut Scope::new(), &tree, "twice", (21_i64,)).map_err(failed)?;
    println!("{twice}");
    engine.set_max_operations(10_000);
    for text in ["1 +", "let a = 1; a.none", "loop { }", "throw #{ code: 7 }", "9223372036854775807 + 1", "[1, 2][5]"] {
        println!("{:?}", engine.eval::<Dynamic>(text).map(|value| value.to_string()).map_err(failed));
    }
    Ok(())
}
