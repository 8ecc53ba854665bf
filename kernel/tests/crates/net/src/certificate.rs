//! A certificate for `localhost`, and the settings of TLS by which servers show it and clients trust it
//! alone.

use std::sync::Arc;

use ::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use ::rustls::{ClientConfig, RootCertStore, ServerConfig};

type Error = Box<dyn std::error::Error + Send + Sync>;

pub struct Certificate {
    pub certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

impl Certificate {
    pub fn new() -> Result<Self, Error> {
        let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
        let key = PrivateKeyDer::try_from(signed.signing_key.serialize_der())?;
        Ok(Self { certificate: signed.cert.into(), key })
    }

    pub fn server(&self, protocols: &[&str]) -> Result<ServerConfig, Error> {
        let builder = ServerConfig::builder().with_no_client_auth();
        let mut config = builder.with_single_cert(vec![self.certificate.clone()], self.key.clone_key())?;
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        Ok(config)
    }

    pub fn client(&self, protocols: &[&str]) -> Result<ClientConfig, Error> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone())?;
        let mut config =
            ClientConfig::builder().with_root_certificates(Arc::new(roots)).with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        Ok(config)
    }
}
