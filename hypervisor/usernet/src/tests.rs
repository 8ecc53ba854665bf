//! Tests of the network as a whole, with a host whose sockets are buffers.

mod clients;
mod datagrams;
mod fake_host;
mod hostile;
mod lab;
mod link;
mod streams;
mod tcp;
