//! Arrays and matrices.

use nalgebra::{
    DMatrix, DVector, Isometry3, Matrix3, Rotation2, SymmetricEigen, Unit, UnitQuaternion, Vector3,
};
use ndarray::{Array, Array1, Array2, Axis, Zip, arr2, concatenate, s};

/// Linear algebra.
pub fn nalgebra() -> crate_uses::Result {
    let matrix = Matrix3::new(4.0, -2.0, 1.0, 3.0, 6.0, -4.0, 2.0, 1.0, 8.0_f64);
    println!("{:.6} {:.6}", matrix.determinant(), matrix.try_inverse().ok_or("singular")?);
    let mut numbers = crate_uses::numbers(3).map(|number| f64::from(number % 1000) / 100.0);
    let large = DMatrix::from_fn(12, 12, |_, _| numbers.next().unwrap_or(0.0));
    let right = DVector::from_fn(12, |row, _| row as f64);
    let solution = large.clone().lu().solve(&right).ok_or("singular")?;
    println!("{:.6} {}", solution.norm(), (&large * &solution - &right).amax() < 1e-9);
    let symmetric = SymmetricEigen::new(&large * large.transpose());
    println!("{:.4}", symmetric.eigenvalues.max());
    println!("{:.4}", large.svd(false, false).singular_values[0]);
    let turn = UnitQuaternion::from_axis_angle(&Unit::new_normalize(Vector3::new(1.0, 1.0, 0.0)), 1.0);
    let motion = Isometry3::from_parts(Vector3::new(1.0, 2.0, 3.0).into(), turn);
    println!("{:.6}", motion.inverse() * (motion * Vector3::new(0.5, 0.25, 0.125)));
    println!("{:.6}", Rotation2::new(0.5).matrix());
    Ok(())
}

/// Arrays of several dimensions.
pub fn ndarray() -> crate_uses::Result {
    let matrix: Array2<f64> = Array::from_shape_fn((4, 5), |(row, column)| (row * 10 + column) as f64);
    println!("{:?}", matrix.slice(s![1..;2, ..3]));
    println!("{:?} {:?}", matrix.sum_axis(Axis(0)), matrix.mean_axis(Axis(1)));
    println!("{:?}", matrix.dot(&matrix.t()).diag());
    let row: Array1<f64> = Array::linspace(0.0, 1.0, 5);
    println!("{:?}", &matrix.row(2) * &row + 1.0);
    let mut changed = matrix.clone();
    Zip::indexed(&mut changed)
        .and(&matrix)
        .for_each(|(row, _), out, value| *out = if row % 2 == 0 { -value } else { 0.0 });
    println!("{:?}", changed.map(|value| *value as i32).into_shape_with_order((2, 10))?);
    println!("{:?}", concatenate(Axis(1), &[arr2(&[[1], [2]]).view(), arr2(&[[3, 4], [5, 6]]).view()])?);
    println!("{:?}", matrix.windows((2, 2)).into_iter().map(|window| window.sum()).fold(0.0, f64::max));
    println!("{:?}", Array::from_shape_vec((2, 2), vec![1, 2, 3]).map_err(|error| error.to_string()));
    Ok(())
}
