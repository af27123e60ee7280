//! Cells on the wire (tor-spec section 3).

/// Commands of cells.
pub(crate) const PADDING: u8 = 0;
pub(crate) const RELAY: u8 = 3;
pub(crate) const DESTROY: u8 = 4;
pub(crate) const CREATE_FAST: u8 = 5;
pub(crate) const CREATED_FAST: u8 = 6;
pub(crate) const VERSIONS: u8 = 7;
pub(crate) const NETINFO: u8 = 8;

/// Length of a fixed cell's payload.
pub(crate) const PAYLOAD_BYTES: usize = 509;

/// A cell with its payload: [`PAYLOAD_BYTES`] of it for fixed cells, any length for variable ones.
#[derive(Debug)]
pub(crate) struct Cell {
    pub(crate) circuit: u32,
    pub(crate) command: u8,
    pub(crate) payload: Vec<u8>,
}

/// Whether cells of this command carry their length.
pub(crate) fn is_variable(command: u8) -> bool {
    command == VERSIONS || command >= 128
}

/// A fixed cell in the format of link protocol 4 and 5, padded with zeros.
pub(crate) fn encode_fixed(circuit: u32, command: u8, payload: &[u8]) -> [u8; 5 + PAYLOAD_BYTES] {
    let mut bytes = [0; 5 + PAYLOAD_BYTES];
    bytes[..4].copy_from_slice(&circuit.to_be_bytes());
    bytes[4] = command;
    bytes[5..5 + payload.len()].copy_from_slice(payload);
    bytes
}
