//! Guests that run as processes: what they can do, what they cannot, and what is left of them.

#[cfg(test)]
mod debugged;
#[cfg(test)]
mod echo;
#[cfg(test)]
mod ends;
#[cfg(test)]
mod escapes;
#[cfg(test)]
mod guest;
#[cfg(test)]
mod host;
#[cfg(test)]
mod inside;
#[cfg(test)]
mod machine;
#[cfg(test)]
mod network;
