//! Values of types that the program finds by their names.

use serde::{Deserialize, Serialize};

#[typetag::serde(tag = "kind")]
trait Shape {
    fn area(&self) -> f64;
}

#[derive(Serialize, Deserialize)]
struct Square {
    side: f64,
}

#[typetag::serde]
impl Shape for Square {
    fn area(&self) -> f64 {
        self.side * self.side
    }
}

#[derive(Serialize, Deserialize)]
struct Triangle {
    base: f64,
    height: f64,
}

#[typetag::serde(name = "triangle")]
impl Shape for Triangle {
    fn area(&self) -> f64 {
        self.base * self.height / 2.0
    }
}

pub fn run() -> crate_uses::Result {
    let shapes: Vec<Box<dyn Shape>> =
        vec![Box::new(Square { side: 1.5 }), Box::new(Triangle { base: 3.0, height: 4.0 })];
    let text = serde_json::to_string(&shapes)?;
    println!("{text}");
    let read: Vec<Box<dyn Shape>> = serde_json::from_str(&text)?;
    println!("{:?}", read.iter().map(|shape| shape.area()).collect::<Vec<_>>());
    let unknown: Result<Box<dyn Shape>, _> = serde_json::from_str(r#"{"kind": "circle", "radius": 1}"#);
    println!("{}", unknown.err().ok_or("a circle was read")?);
    Ok(())
}
