//! SHA-256 of files, in hexadecimal.

use std::fs::File;
use std::io;
use std::path::Path;

use sha2::{Digest, Sha256};

pub fn of_file(path: &Path) -> io::Result<String> {
    let mut hasher = Sha256::new();
    io::copy(&mut File::open(path)?, &mut hasher)?;
    Ok(hex::encode(hasher.finalize()))
}

pub fn of_bytes(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}
