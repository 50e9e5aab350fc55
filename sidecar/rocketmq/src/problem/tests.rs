use std::{fs, path::Path, time::Duration};

use lockstep_tls::testing::Authority;

use super::*;
use crate::{
    protocol::MaxOffset,
    remoting::{CredentialsSource, Remoting, RemotingConfig, TlsFiles},
};

/// What a person is told when a connection of that kind is tried.
async fn problem(config: RemotingConfig) -> Problem {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (remoting, _events) = Remoting::new(config);
    let question = MaxOffset { topic: "T".into(), queue_id: 0 };
    let error = remoting.call(&address, &question, Duration::from_secs(20)).await.unwrap_err();
    of_call(&error, About { peer: Peer::NameServer, group: "g", topic: None, name_servers: &[] })
}

fn signed(folder: &Path) -> RemotingConfig {
    RemotingConfig { credentials: CredentialsSource::Folder(folder.to_owned()), ..RemotingConfig::default() }
}

fn encrypted(tls: TlsFiles) -> RemotingConfig {
    RemotingConfig { tls: Some(tls), ..RemotingConfig::default() }
}

#[tokio::test]
async fn credentials_that_can_t_be_used_are_not_taken_for_tls() {
    let folder = tempfile::tempdir().unwrap();
    let is = |problem: &Problem, key: &str| {
        let Problem { reason, message, remedy } = problem;
        assert_eq!(*reason, reason::WRONG_CREDENTIALS, "{message}");
        assert!(message.contains(&folder.path().join(key).display().to_string()), "{message}");
        assert!(remedy.contains("credentialsSecretRef") && remedy.contains(key), "{remedy}");
    };
    is(&problem(signed(folder.path())).await, "accessKey");
    fs::write(folder.path().join("accessKey"), "me").unwrap();
    is(&problem(signed(folder.path())).await, "secretKey");
    // Nothing but white space is no key.
    fs::write(folder.path().join("secretKey"), "\n").unwrap();
    is(&problem(signed(folder.path())).await, "secretKey");
    fs::write(folder.path().join("secretKey"), [0xff, 0xfe]).unwrap();
    is(&problem(signed(folder.path())).await, "secretKey");
}

#[tokio::test]
async fn files_for_tls_that_can_t_be_used_are_those_of_tls() {
    let folder = tempfile::tempdir().unwrap();
    let (ca, chain, key) = (folder.path().join("ca.crt"), folder.path().join("c"), folder.path().join("k"));
    let files = TlsFiles { ca: Some(ca), identity: None };
    let missing = problem(encrypted(files)).await;
    assert_eq!(missing.reason, reason::TLS_FAILED);
    assert!(missing.message.contains("ca.crt") && missing.remedy.contains("tls"), "{missing:?}");
    let authority = Authority::new();
    let missing =
        problem(encrypted(TlsFiles { ca: Some(authority.ca()), identity: Some((chain.clone(), key)) })).await;
    assert_eq!(missing.reason, reason::TLS_FAILED);
    assert!(missing.message.contains(&chain.display().to_string()), "{missing:?}");
}
