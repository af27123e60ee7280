//! The private network and real relays on it.

mod private_network;
mod running_relay;
