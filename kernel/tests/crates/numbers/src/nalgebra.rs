//! Linear algebra.

use nalgebra::{DMatrix, DVector, Isometry3, Matrix3, Rotation2, SymmetricEigen, Unit, UnitQuaternion, Vector3};

pub fn run() -> crate_uses::Result {
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
