//! Floating-point numbers as keys.

use std::collections::BTreeMap;

use ordered_float::{FloatCore, NotNan, OrderedFloat};

pub fn run() -> crate_uses::Result {
    let values = [2.5, f64::NAN, -0.0, f64::NEG_INFINITY, 1e-9, 0.0];
    let mut sorted = values.map(OrderedFloat);
    sorted.sort();
    println!("{sorted:?}");
    let counted = values.iter().fold(BTreeMap::new(), |mut counts, value| {
        *counts.entry(OrderedFloat(*value)).or_insert(0) += 1;
        counts
    });
    println!("{counted:?} {:?}", OrderedFloat(f64::NAN) == OrderedFloat(f64::NAN));
    let largest = values.iter().filter_map(|value| NotNan::new(*value).ok()).max();
    println!("{largest:?} {:?} {:?}", NotNan::new(f32::NAN), "1.5".parse::<NotNan<f64>>()? * 2.0);
    println!("{:?}", OrderedFloat(7.75_f64).integer_decode());
    Ok(())
}
