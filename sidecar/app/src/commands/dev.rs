use std::{
    fs,
    path::{Path, PathBuf},
};

use lockstep_broker::Clock;
use lockstep_contract::{KeyFrom, OrderingKey};
use lockstep_embedded::{Embedded, Options};
use tokio::net::TcpListener;

use super::{Failure, block_on, random_name, run::warn_of, say, secrets_folder, start_logs};
use crate::{
    args::DevArgs,
    config::{Assignment, Origin},
    deliver::{Endpoint, SourceInfo},
    service::{self, Plan, level_name},
    state::State,
};

/// A folder that goes away with the process, unless it was given.
pub(super) struct Folder {
    path: PathBuf,
    temporary: bool,
}

impl Folder {
    pub(super) fn of(given: Option<PathBuf>) -> Result<Self, Failure> {
        let temporary = given.is_none();
        let path = match given {
            Some(path) => path,
            None => std::env::temp_dir().join(format!("lockstep-{}", random_name(8)?)),
        };
        let failed = |error| {
            format!(
                "failed to make the folder {}: {error}; name another one with --state-dir",
                path.display()
            )
        };
        fs::create_dir_all(&path).map_err(|error| Failure::failed(failed(error)))?;
        Ok(Self { path, temporary })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.temporary {
            // What can't be removed is left to the system's own cleaning.
            fs::remove_dir_all(&self.path).ok();
        }
    }
}

/// Delivers from a local broker until a drain is over.
pub(super) fn dev(args: DevArgs) -> Result<(), Failure> {
    serve(args, true)
}

/// The same for the demonstration, which reads the address of the broker from standard output.
pub(super) fn demo_member(args: DevArgs) -> Result<(), Failure> {
    serve(args, false)
}

fn serve(args: DevArgs, talkative: bool) -> Result<(), Failure> {
    let origin = Origin::File(args.file);
    let loaded = origin.load().map_err(Failure::usage)?;
    let callback = Endpoint::from_url(&args.callback).map_err(Failure::usage)?;
    let log_level = start_logs(level_name(loaded.group.spec.sidecar.log_level))?;
    warn_of(&loaded);
    let folder = Folder::of(args.state_dir)?;
    let state = State::open(folder.path());
    let client_id = state.client_id(|| "dev".to_owned());
    let key_property = key_property(&loaded.group.spec.ordering.key);
    let secrets = secrets_folder(args.credentials_dir.as_deref());
    block_on(async move {
        let clock = Clock::new();
        let options = Options { key_property: key_property.clone(), ..Options::default() };
        let broker = Embedded::open(folder.path().join("messages.redb"), options).map_err(Failure::failed)?;
        let listener = TcpListener::bind(args.publish).await.map_err(|error| {
            Failure::failed(format!(
                "failed to listen on {}: {error}; name another address with --publish",
                args.publish
            ))
        })?;
        let address = listener.local_addr().map_err(Failure::failed)?;
        say(format!("publish http://{address}/publish"));
        if talkative {
            let key = match key_property {
                Some(name) => format!("Lockstep-Property-{name}"),
                None => "Lockstep-Key".to_owned(),
            };
            say(format!(
                "  curl http://{address}/publish -H '{key}: alice' -H 'Content-Type: application/json' \
                 -d '{{\"hello\": \"world\"}}'"
            ));
            say(format!(
                "  curl http://{address}/messages and curl http://{address}/dead-letters show what is there"
            ));
            let admin = loaded.group.spec.sidecar.admin_port;
            say(format!("  curl http://127.0.0.1:{admin}/status shows how it goes; Ctrl-C ends it"));
        }
        let publishing = broker.clone();
        let publishing = tokio::spawn(async move { publishing.serve(listener).await });
        let source = SourceInfo {
            scheme: "lockstep-dev",
            authority: loaded.group.metadata.name.clone(),
            hidden_properties: &[],
        };
        let plan = Plan {
            origin,
            loaded,
            assignment: Assignment::mounted(),
            secrets,
            callback: Some(callback),
            source,
            state,
            client_id,
            log_level,
            clock,
        };
        let ended = service::serve(broker.broker(clock), plan).await;
        publishing.abort();
        drop(folder);
        ended?;
        Ok(())
    })
}

/// The property that holds a message's key where the manifest says so.
fn key_property(key: &OrderingKey) -> Option<String> {
    match key.from {
        KeyFrom::Header => key.header.clone(),
        KeyFrom::Native => None,
    }
}
