//! A connection to a relay.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{self, ClientConfig, DigitallySignedStruct, SignatureScheme};

use super::cell::{self, Cell, PAYLOAD_BYTES};

/// How long connecting and shaking hands may take; a relay on a saturated machine is slow.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(20);

/// Why a connection or circuit ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("the relay destroyed the circuit (reason {0})")]
    Destroyed(u8),
    #[error("no answer in time")]
    Timeout,
}

/// A TLS connection that speaks link protocol 4 or 5.
#[derive(Debug)]
pub(crate) struct Channel {
    stream: BufReader<TlsStream<TcpStream>>,
    circuits: u32,
}

impl Channel {
    /// Connects from `source`, an address of loopback, so that a relay sees many clients.
    pub(crate) async fn open(
        relay: SocketAddr,
        source: Ipv4Addr,
        tls: &TlsConnector,
    ) -> Result<Self, LinkError> {
        tokio::time::timeout(HANDSHAKE_TIMEOUT, Self::handshake(relay, source, tls))
            .await
            .map_err(|_| LinkError::Timeout)?
    }

    async fn handshake(relay: SocketAddr, source: Ipv4Addr, tls: &TlsConnector) -> Result<Self, LinkError> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from((source, 0)))?;
        let stream = socket.connect(relay).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from("www.example.invalid").map_err(io::Error::other)?;
        let stream = tls.connect(name, stream).await?;
        let mut channel = Self { stream: BufReader::with_capacity(4096, stream), circuits: 0 };
        // VERSIONS: a circuit id of 2 bytes, as in link protocol 1 to 3; we speak 4 and 5.
        channel.stream.write_all(&[0, 0, cell::VERSIONS, 0, 4, 0, 4, 0, 5]).await?;
        channel.stream.flush().await?;
        let mut header = [0; 5];
        channel.stream.read_exact(&mut header).await?;
        let mut versions = vec![0; usize::from(u16::from_be_bytes([header[3], header[4]]))];
        channel.stream.read_exact(&mut versions).await?;
        while channel.receive().await?.command != cell::NETINFO {}
        // NETINFO: no time, the relay's address as we see it, no address of ours.
        channel.send(0, cell::NETINFO, &[0, 0, 0, 0, 4, 4, 127, 0, 0, 1, 0]).await?;
        Ok(channel)
    }

    /// An id for a new circuit; the initiator sets the highest bit.
    pub(crate) fn next_circuit(&mut self) -> u32 {
        self.circuits += 1;
        0x8000_0000 | self.circuits
    }

    /// Sends a fixed cell.
    pub(crate) async fn send(&mut self, circuit: u32, command: u8, payload: &[u8]) -> Result<(), LinkError> {
        self.stream.write_all(&cell::encode_fixed(circuit, command, payload)).await?;
        Ok(self.stream.flush().await?)
    }

    /// The next cell that is not padding.
    pub(crate) async fn receive(&mut self) -> Result<Cell, LinkError> {
        loop {
            let mut header = [0; 5];
            self.stream.read_exact(&mut header).await?;
            let command = header[4];
            let length = if cell::is_variable(command) {
                usize::from(self.stream.read_u16().await?)
            } else {
                PAYLOAD_BYTES
            };
            let mut payload = vec![0; length];
            self.stream.read_exact(&mut payload).await?;
            if command != cell::PADDING {
                let circuit = u32::from_be_bytes([header[0], header[1], header[2], header[3]]);
                return Ok(Cell { circuit, command, payload });
            }
        }
    }
}

/// TLS that takes any certificate: relays of the lab sign their own, and nothing secret is sent.
pub(crate) fn tls_connector() -> Result<TlsConnector, rustls::Error> {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate))
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

#[derive(Debug)]
struct AnyCertificate;

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}
