//! Runs WebAssembly that calls Rust.

use wasmi::{Caller, Engine, Func, Linker, Module, Store};

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

pub fn run() -> crate_uses::Result {
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
    println!("{:?} {:?}", divide.call(&mut store, 7), divide.call(&mut store, 0).map_err(|error| error.to_string()));
    println!("{:?}", instance.get_typed_func::<(i32, i64), ()>(&store, "store")?.call(&mut store, (70_000, 1)).is_err());
    println!("{}", Module::new(&engine, b"\0asm").is_err());
    Ok(())
}
