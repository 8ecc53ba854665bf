//! The mathematical functions of `f32` and `f64`, and distances between their results.

/// A result that is expected.
#[derive(Clone, Copy)]
pub(crate) enum Reference<F> {
    Number(F),
    NotANumber,
}

/// A type of floating-point numbers.
pub(crate) trait Float: Copy {
    /// Parses bits.
    fn parse(bits: &str) -> Option<Self>;

    /// Calls a function of one argument, `x`, or of two.
    fn call(name: &str, x: Self, y: Self) -> Option<Self>;

    /// How many numbers there are from one to the other. Numbers of different signs, and those that are NaN
    /// or not, are as far from each other as can be.
    fn units_from(self, expected: Reference<Self>) -> u64;
}

macro_rules! float {
    ($float:ident, $bits:ident) => {
        impl Float for $float {
            fn parse(bits: &str) -> Option<Self> {
                $bits::from_str_radix(bits, 16).ok().map(Self::from_bits)
            }

            fn call(name: &str, x: Self, y: Self) -> Option<Self> {
                Some(match name {
                    "acos" => x.acos(),
                    "asin" => x.asin(),
                    "atan" => x.atan(),
                    "atan2" => x.atan2(y),
                    "cbrt" => x.cbrt(),
                    "cos" => x.cos(),
                    "cosh" => x.cosh(),
                    "exp" => x.exp(),
                    "exp2" => x.exp2(),
                    "exp_m1" => x.exp_m1(),
                    "hypot" => x.hypot(y),
                    "ln" => x.ln(),
                    "ln_1p" => x.ln_1p(),
                    "log10" => x.log10(),
                    "log2" => x.log2(),
                    "powf" => x.powf(y),
                    "sin" => x.sin(),
                    "sinh" => x.sinh(),
                    "tan" => x.tan(),
                    "tanh" => x.tanh(),
                    _ => return None,
                })
            }

            fn units_from(self, expected: Reference<Self>) -> u64 {
                match expected {
                    Reference::NotANumber if self.is_nan() => 0,
                    Reference::Number(number)
                        if !self.is_nan() && number.is_sign_negative() == self.is_sign_negative() =>
                    {
                        number.to_bits().abs_diff(self.to_bits()).into()
                    }
                    _ => u64::MAX,
                }
            }
        }
    };
}

float!(f32, u32);
float!(f64, u64);
