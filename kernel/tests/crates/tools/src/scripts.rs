//! Programs in a program.

use rhai::{Dynamic, Scope};
use wasmi::{Caller, Func, Linker, Module, Store};

#[derive(Clone)]
struct Counter(i64);

/// Runs scripts, with functions and types of the program, and limits.
pub fn rhai() -> crate_uses::Result {
    use rhai::Engine;

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
    for text in
        ["1 +", "let a = 1; a.none", "loop { }", "throw #{ code: 7 }", "9223372036854775807 + 1", "[1, 2][5]"]
    {
        println!("{:?}", engine.eval::<Dynamic>(text).map(|value| value.to_string()).map_err(failed));
    }
    Ok(())
}

const TEXT: &str = r#"(module
    (import "host" "print" (func $print (param i32)))
    (memory (export "memory") 1)
    (func $fibonacci (export "fibonacci") (param $n i32) (result i32)
        (if (result i32) (i32.lt_s (local.get $n) (i32.const 2))
            (then (local.get $n))
            (else (i32.add
                (call $fibonacci (i32.sub (local.get $n) (i32.const 1)))
                (call $fibonacci (i32.sub (local.get $n) (i32.const 2)))))))
    (func (export "store") (param i32 i64) (i64.store (local.get 0) (local.get 1)) (call $print (local.get 0)))
    (func (export "divide") (param i32) (result i32) (i32.div_u (i32.const 100) (local.get 0))))"#;

/// Runs WebAssembly that calls Rust.
pub fn wasmi() -> crate_uses::Result {
    use wasmi::Engine;

    let engine = Engine::default();
    let module = Module::new(&engine, wat::parse_str(TEXT)?)?;
    let mut store = Store::new(&engine, 0_u32);
    let mut linker = Linker::new(&engine);
    let print = Func::wrap(&mut store, |mut caller: Caller<'_, u32>, number: i32| {
        *caller.data_mut() += 1;
        println!("printed {number}");
    });
    linker.define("host", "print", print)?;
    let instance = linker.instantiate(&mut store, &module)?.start(&mut store)?;
    println!("{}", instance.get_typed_func::<i32, i32>(&store, "fibonacci")?.call(&mut store, 15)?);
    instance.get_typed_func::<(i32, i64), ()>(&store, "store")?.call(&mut store, (16, -2))?;
    let memory = instance.get_memory(&store, "memory").ok_or("no memory")?;
    println!("{:?} {}", &memory.data(&store)[14..26], store.data());
    let divide = instance.get_typed_func::<i32, i32>(&store, "divide")?;
    println!(
        "{:?} {:?}",
        divide.call(&mut store, 7),
        divide.call(&mut store, 0).map_err(|error| error.to_string())
    );
    println!(
        "{:?}",
        instance.get_typed_func::<(i32, i64), ()>(&store, "store")?.call(&mut store, (70_000, 1)).is_err()
    );
    println!("{}", Module::new(&engine, b"\0asm").is_err());
    Ok(())
}
