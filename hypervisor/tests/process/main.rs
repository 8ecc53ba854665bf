//! Guests that run as processes: what they can do, what they cannot, and what is left of them.

mod guest;
mod host;

#[cfg(test)]
mod ends;
#[cfg(test)]
mod escapes;
#[cfg(test)]
mod inside;
#[cfg(test)]
mod machine;
