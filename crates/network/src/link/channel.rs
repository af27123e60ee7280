//! A connection to a relay, as its client.

use std::io;
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::ready;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWriteExt, BufReader, ReadBuf};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{self, ClientConfig, DigitallySignedStruct, SignatureScheme};

use super::cell::{self, Cell, Naming};

/// How long connecting and shaking hands may take; a relay on a saturated machine is slow.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(20);
/// Taken from TLS at once: a record.
const BLOCK_BYTES: usize = 16_384;
/// Read ahead below TLS, which by itself asks the kernel for 4 KiB at a time: nothing, on thousands of connections.
const AHEAD_BYTES: usize = 1;
/// The link protocols that we speak, as VERSIONS has them.
const VERSIONS: [u8; 4] = [0, 4, 0, 5];

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

/// A TLS connection that speaks link protocol 4 or 5. It holds memory only for what is under way: thousands of them
/// wait most of the time.
#[derive(Debug)]
pub(crate) struct Channel {
    stream: TlsStream<BufReader<TcpStream>>,
    naming: Naming,
    received: Vec<u8>,
    /// How much of `received` was taken out.
    taken: usize,
    queued: Vec<u8>,
    circuits: u32,
}

impl Channel {
    /// Connects from `source`, an address of loopback, so that a relay sees many clients.
    pub(crate) async fn open(
        relay: SocketAddr,
        source: Ipv4Addr,
        tls: &TlsConnector,
    ) -> Result<Self, LinkError> {
        in_time(Self::connect(relay, source, tls)).await
    }

    async fn connect(relay: SocketAddr, source: Ipv4Addr, tls: &TlsConnector) -> Result<Self, LinkError> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from((source, 0)))?;
        let stream = socket.connect(relay).await?;
        stream.set_nodelay(true)?;
        let stream = BufReader::with_capacity(AHEAD_BYTES, stream);
        let name = ServerName::try_from("www.example.invalid").map_err(io::Error::other)?;
        let stream = tls.connect(name, stream).await?;
        let (received, queued) = (Vec::new(), Vec::new());
        let mut channel = Self { stream, naming: Naming::Short, received, taken: 0, queued, circuits: 0 };
        channel.send_versions().await?;
        while channel.receive().await?.command != cell::NETINFO {}
        // No time, the relay's address as we see it, no address of ours.
        channel.send(0, cell::NETINFO, &[0, 0, 0, 0, 4, 4, 127, 0, 0, 1, 0]).await?;
        Ok(channel)
    }

    /// Says which link protocols we speak, and hears which the other end speaks.
    async fn send_versions(&mut self) -> Result<(), LinkError> {
        self.queued.extend([0, 0, cell::VERSIONS, 0, VERSIONS.len() as u8]);
        self.queued.extend(VERSIONS);
        self.flush().await?;
        while self.receive().await?.command != cell::VERSIONS {}
        self.naming = Naming::Long;
        Ok(())
    }

    /// An id for a new circuit; the initiator sets the highest bit.
    pub(crate) fn next_circuit(&mut self) -> u32 {
        self.circuits += 1;
        0x8000_0000 | self.circuits
    }

    /// Puts a fixed cell where the next [`flush`](Self::flush) sends it.
    pub(crate) fn queue(&mut self, circuit: u32, command: u8, payload: &[u8]) {
        cell::encode_fixed(&mut self.queued, circuit, command, payload);
    }

    pub(crate) async fn flush(&mut self) -> Result<(), LinkError> {
        let queued = std::mem::take(&mut self.queued);
        self.stream.write_all(&queued).await?;
        Ok(self.stream.flush().await?)
    }

    pub(crate) async fn send(&mut self, circuit: u32, command: u8, payload: &[u8]) -> Result<(), LinkError> {
        self.queue(circuit, command, payload);
        self.flush().await
    }

    /// The next cell that is not padding. Nothing is lost when the future is dropped.
    pub(crate) async fn receive(&mut self) -> Result<Cell, LinkError> {
        loop {
            if let Some(cell) = self.received() {
                return Ok(cell);
            }
            self.read_block().await?;
        }
    }

    /// The next cell that is not padding, if it is here already.
    pub(crate) fn received(&mut self) -> Option<Cell> {
        while let Some((cell, length)) = cell::decode(&self.received[self.taken..], self.naming) {
            self.taken += length;
            if cell.command != cell::PADDING {
                return Some(cell);
            }
        }
        let rest = self.received.split_off(self.taken);
        (self.received, self.taken) = (rest, 0);
        None
    }

    async fn read_block(&mut self) -> io::Result<()> {
        std::future::poll_fn(|context| {
            let mut block = [MaybeUninit::uninit(); BLOCK_BYTES];
            let mut block = ReadBuf::uninit(&mut block);
            ready!(Pin::new(&mut self.stream).poll_read(context, &mut block))?;
            self.received.extend(block.filled());
            let ended = block.filled().is_empty();
            std::task::Poll::Ready(if ended { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) })
        })
        .await
    }
}

async fn in_time<T>(handshake: impl Future<Output = Result<T, LinkError>>) -> Result<T, LinkError> {
    tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake).await.map_err(|_| LinkError::Timeout)?
}

/// TLS that takes any certificate: relays of the lab sign their own, and nothing secret is sent.
pub(crate) fn tls_connector() -> Result<TlsConnector, rustls::Error> {
    // The group that Tor's own clients offer first, and no sessions to resume, as they have none.
    let provider = CryptoProvider { kx_groups: vec![ring::kx_group::SECP256R1], ..ring::default_provider() };
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate))
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
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
