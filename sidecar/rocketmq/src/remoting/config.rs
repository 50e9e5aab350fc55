use std::{
    collections::BTreeMap,
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use lockstep_tls::TlsFiles;

use super::ConnectError;
use crate::codec::{Credentials, HeaderEncoding};

/// Connect timeout, as in the Java client.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// How the process connects.
#[derive(Debug, Clone)]
pub struct RemotingConfig {
    /// Addresses to connect to instead of those that name servers tell.
    pub overrides: BTreeMap<String, String>,
    /// TLS with verification; absent = none.
    pub tls: Option<TlsFiles>,
    /// What requests are signed with.
    pub credentials: CredentialsSource,
    /// How headers are written.
    pub encoding: HeaderEncoding,
    /// How long opening a connection may take, TLS included.
    pub connect_timeout: Duration,
}

impl Default for RemotingConfig {
    fn default() -> Self {
        Self {
            overrides: BTreeMap::new(),
            tls: None,
            credentials: CredentialsSource::None,
            encoding: HeaderEncoding::default(),
            connect_timeout: CONNECT_TIMEOUT,
        }
    }
}

/// Where credentials come from; asked again at each connect so that rotated ones are used.
#[derive(Clone, Default)]
pub enum CredentialsSource {
    /// Requests are not signed.
    #[default]
    None,
    /// Files `accessKey`, `secretKey` and perhaps `securityToken` in a folder.
    Folder(PathBuf),
    /// A function.
    Function(Arc<dyn Fn() -> Result<Option<Credentials>, String> + Send + Sync>),
}

impl fmt::Debug for CredentialsSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Folder(folder) => f.debug_tuple("Folder").field(folder).finish(),
            Self::Function(_) => f.write_str("Function"),
        }
    }
}

impl CredentialsSource {
    /// The credentials as they are now.
    pub(super) async fn read(&self) -> Result<Option<Credentials>, ConnectError> {
        match self {
            Self::None => Ok(None),
            Self::Folder(folder) => folder_credentials(folder).await.map(Some),
            Self::Function(read) => read().map_err(ConnectError::Credentials),
        }
    }
}

async fn folder_credentials(folder: &Path) -> Result<Credentials, ConnectError> {
    let needed = |name| async move {
        let path = folder.join(name);
        match word(&path).await? {
            Some(word) => Ok(word),
            None => Err(ConnectError::CredentialsFile { path, reason: "it is missing or empty".to_owned() }),
        }
    };
    Ok(Credentials {
        access_key: needed("accessKey").await?,
        secret_key: needed("secretKey").await?,
        security_token: word(&folder.join("securityToken")).await?,
    })
}

/// A file's content without the white space that editors leave at its end; `None` for a missing or empty one.
async fn word(path: &Path) -> Result<Option<String>, ConnectError> {
    match tokio::fs::read_to_string(path).await {
        Ok(text) => Ok(Some(text.trim_end().to_owned()).filter(|text| !text.is_empty())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ConnectError::CredentialsFile { path: path.to_owned(), reason: error.to_string() }),
    }
}
