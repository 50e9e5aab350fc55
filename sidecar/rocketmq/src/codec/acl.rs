use std::fmt;

use base64::{Engine, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;

use super::Command;

/// The field that carries the signature; it is not signed itself.
const SIGNATURE: &str = "Signature";
const ACCESS_KEY: &str = "AccessKey";
const SECURITY_TOKEN: &str = "SecurityToken";

/// What a client signs its requests with. Its debug form shows no secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// Who.
    pub access_key: String,
    /// The shared secret.
    pub secret_key: String,
    /// A token of temporary credentials.
    pub security_token: Option<String>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("access_key", &self.access_key).finish_non_exhaustive()
    }
}

impl Credentials {
    /// Signs a request as it stands; a signature that it carries already is replaced. Nothing may be changed after.
    pub fn sign(&self, request: &mut Command) {
        for name in [SIGNATURE, ACCESS_KEY, SECURITY_TOKEN] {
            request.fields.remove(name);
        }
        request.fields.push(ACCESS_KEY, &self.access_key);
        if let Some(token) = &self.security_token {
            request.fields.push(SECURITY_TOKEN, token);
        }
        let mut fields: Vec<_> = request.fields.iter().collect();
        fields.sort_by_key(|(name, _)| *name);
        let mut mac = Hmac::<Sha1>::new_from_slice(self.secret_key.as_bytes())
            .expect("a key of any length must be a key of this code");
        for (_, value) in fields {
            mac.update(value.as_bytes());
        }
        mac.update(&request.body);
        let signature = STANDARD.encode(mac.finalize().into_bytes());
        request.fields.push(SIGNATURE, signature);
    }
}
