//! The keys of the authority, in a folder.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use rsa::RsaPrivateKey;
use rsa::pkcs1::DecodeRsaPrivateKey;
use rsa::pkcs8::DecodePrivateKey;

use crate::directory::RsaKey;
use heaptrial_relay::TorError;

const IDENTITY: &str = "authority_identity_key";
const SIGNING: &str = "authority_signing_key";
const CERTIFICATE: &str = "authority_certificate";

/// The keys of the authority, made by `tor-gencert`.
#[derive(Debug)]
pub struct AuthorityKeys {
    pub(super) certificate: String,
    pub(super) identity: String,
    pub(super) signing_key: RsaKey,
}

impl AuthorityKeys {
    /// Makes keys in `folder` with `tor-gencert`.
    pub fn generate(folder: &Path) -> Result<Self, TorError> {
        const PROGRAM: &str = "tor-gencert";
        let program = |source| TorError::Program { program: PROGRAM.to_owned(), source };
        let mut child = Command::new(PROGRAM)
            .args(["--create-identity-key", "--passphrase-fd", "0", "-m", "12", "-i", IDENTITY])
            .args(["-s", SIGNING, "-c", CERTIFICATE])
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(program)?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(b"lab\n").map_err(program)?;
        }
        let output = child.wait_with_output().map_err(program)?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(TorError::Failed(format!("`{PROGRAM}` failed: {said}")));
        }
        Self::read(folder)
    }

    /// The keys that were made in `folder` before, or new ones if it has none.
    pub fn open(folder: &Path) -> Result<Self, TorError> {
        // tor-gencert writes it last.
        if folder.join(CERTIFICATE).exists() { Self::read(folder) } else { Self::generate(folder) }
    }

    fn read(folder: &Path) -> Result<Self, TorError> {
        let path = folder.join(CERTIFICATE);
        let certificate = std::fs::read_to_string(&path).map_err(TorError::file(&path))?;
        let identity = certificate
            .lines()
            .find_map(|line| line.strip_prefix("fingerprint "))
            .ok_or_else(|| TorError::Content { path, problem: "has no fingerprint line".to_owned() })?
            .to_owned();
        let path = folder.join(SIGNING);
        let pem = std::fs::read_to_string(&path).map_err(TorError::file(&path))?;
        let private = RsaPrivateKey::from_pkcs8_pem(&pem)
            .or_else(|_| RsaPrivateKey::from_pkcs1_pem(&pem))
            .map_err(|error| TorError::Content { path, problem: format!("is no RSA key in PEM: {error}") })?;
        Ok(Self { identity, signing_key: RsaKey::new(private)?, certificate })
    }
}
