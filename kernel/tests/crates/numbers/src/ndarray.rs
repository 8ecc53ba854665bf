//! Arrays of several dimensions.

use ndarray::{Array, Array1, Array2, Axis, Zip, arr2, concatenate, s};

pub fn run() -> crate_uses::Result {
    let matrix: Array2<f64> = Array::from_shape_fn((4, 5), |(row, column)| (row * 10 + column) as f64);
    println!("{:?}", matrix.slice(s![1..;2, ..3]));
    println!("{:?} {:?}", matrix.sum_axis(Axis(0)), matrix.mean_axis(Axis(1)));
    println!("{:?}", matrix.dot(&matrix.t()).diag());
    let row: Array1<f64> = Array::linspace(0.0, 1.0, 5);
    println!("{:?}", &matrix.row(2) * &row + 1.0);
    let mut changed = matrix.clone();
    Zip::indexed(&mut changed).and(&matrix).for_each(|(row, _), out, value| *out = if row % 2 == 0 { -value } else { 0.0 });
    println!("{:?}", changed.map(|value| *value as i32).into_shape_with_order((2, 10))?);
    println!("{:?}", concatenate(Axis(1), &[arr2(&[[1], [2]]).view(), arr2(&[[3, 4], [5, 6]]).view()])?);
    println!("{:?}", matrix.windows((2, 2)).into_iter().map(|window| window.sum()).fold(0.0, f64::max));
    println!("{:?}", Array::from_shape_vec((2, 2), vec![1, 2, 3]).map_err(|error| error.to_string()));
    Ok(())
}
