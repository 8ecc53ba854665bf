//! Guests that misbehave: whatever they do, uhyve ends by itself, says why, and nobody else takes harm.
//!
//! The guests run on KVM; where there is none, these tests say so and pass.

mod driver;
mod guest;
mod host;

#[cfg(test)]
mod accesses;
#[cfg(test)]
mod disks;
#[cfg(test)]
mod vcpus;
#[cfg(test)]
mod virtqueues;
