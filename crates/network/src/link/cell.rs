//! Cells on the wire (tor-spec, "Cell format").

pub(crate) const PADDING: u8 = 0;
pub(crate) const RELAY: u8 = 3;
pub(crate) const DESTROY: u8 = 4;
pub(crate) const CREATE_FAST: u8 = 5;
pub(crate) const CREATED_FAST: u8 = 6;
pub(crate) const VERSIONS: u8 = 7;
pub(crate) const NETINFO: u8 = 8;
pub(crate) const CREATE2: u8 = 10;
pub(crate) const CREATED2: u8 = 11;

/// Length of a fixed cell's payload.
pub(crate) const PAYLOAD_BYTES: usize = 509;

/// A cell with its payload: [`PAYLOAD_BYTES`] of it for fixed cells, any length for variable ones.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) circuit: u32,
    pub(crate) command: u8,
    pub(crate) payload: Vec<u8>,
}

/// How cells name their circuit: by 2 bytes until both ends know that they speak link protocol 4 or 5, by 4 then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Naming {
    Short,
    Long,
}

/// The first cell of `bytes` and its length there; `None` while its end is missing.
pub(crate) fn decode(bytes: &[u8], naming: Naming) -> Option<(Cell, usize)> {
    let (circuit, rest) = match naming {
        Naming::Short => (u32::from(u16::from_be_bytes(*bytes.first_chunk()?)), &bytes[2..]),
        Naming::Long => (u32::from_be_bytes(*bytes.first_chunk()?), &bytes[4..]),
    };
    let (command, rest) = rest.split_first()?;
    let (length, rest) = if is_variable(*command) {
        (usize::from(u16::from_be_bytes(*rest.first_chunk()?)), &rest[2..])
    } else {
        (PAYLOAD_BYTES, rest)
    };
    let payload = rest.get(..length)?.to_vec();
    let end = bytes.len() - rest.len() + length;
    Some((Cell { circuit, command: *command, payload }, end))
}

/// Whether cells of this command carry their length.
fn is_variable(command: u8) -> bool {
    command == VERSIONS || command >= 128
}

/// Appends a fixed cell with a circuit of 4 bytes, padded with zeros.
pub(crate) fn encode_fixed(into: &mut Vec<u8>, circuit: u32, command: u8, payload: &[u8]) {
    into.extend(circuit.to_be_bytes());
    into.push(command);
    into.extend(payload);
    into.resize(into.len() + PAYLOAD_BYTES - payload.len(), 0);
}
