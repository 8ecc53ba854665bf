//! Both ends of connections, over networks of many kinds; and packet scripts.

mod lifetime;
mod network;
mod recovery;
mod rfcs;
mod script;
mod streams;
