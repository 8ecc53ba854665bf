//! Connections over simulated networks of many kinds, and packet scripts.

mod algorithms;
mod lifetime;
mod network;
mod promises;
mod recovery;
mod rfcs;
mod script;
mod streams;
