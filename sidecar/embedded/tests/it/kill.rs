use std::{
    collections::BTreeMap,
    env, fs,
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use lockstep_embedded::Options;
use serde_json::Value;
use tokio::{task::JoinSet, time::sleep};

use crate::support::{Served, answer, open, serve};

/// Names the broker file in the child process; unset in the tests' own process.
const CHILD_FILE: &str = "LOCKSTEP_EMBEDDED_KILL_FILE";
/// How many times the process is killed.
const ROUNDS: usize = 6;
const CLIENTS: usize = 8;

/// The victim: serves until it is killed. Without the variable, as in every ordinary run, it has nothing to do.
#[tokio::test]
async fn victim() {
    let Some(path) = env::var_os(CHILD_FILE) else { return };
    let path = Path::new(&path);
    let broker = open(path);
    let (address, task) = serve(&broker).await;
    fs::write(path.with_extension("new"), address).unwrap();
    fs::rename(path.with_extension("new"), path.with_extension("address")).unwrap();
    task.await.unwrap();
}

struct Victim(Child);

impl Drop for Victim {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn spawn(path: &Path) -> Victim {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "kill::victim"]).env(CHILD_FILE, path).stdout(Stdio::null());
    Victim(command.spawn().unwrap())
}

async fn start(path: &Path) -> (Victim, String) {
    let address = path.with_extension("address");
    let _ = fs::remove_file(&address);
    let mut victim = spawn(path);
    loop {
        if let Ok(address) = fs::read_to_string(&address) {
            return (victim, address);
        }
        assert!(victim.0.try_wait().unwrap().is_none(), "the victim ended by itself");
        sleep(Duration::from_millis(5)).await;
    }
}

/// Publishes numbered bodies until the connection breaks; answers what was acknowledged.
async fn publish(address: String, key: String, acknowledged: Arc<AtomicUsize>) -> Vec<(String, Value)> {
    let client = reqwest::Client::new();
    let mut receipts = Vec::new();
    for number in 0.. {
        let body = format!("{key}/{number}");
        let request = client.post(format!("http://{address}/publish")).header("lockstep-key", &key);
        let Ok(response) = request.body(body.clone()).send().await else { break };
        let status = response.status().as_u16();
        let Ok(text) = response.text().await else { break };
        assert_eq!(status, 201, "{text}");
        receipts.push((body, serde_json::from_str(&text).unwrap()));
        acknowledged.fetch_add(1, Ordering::Relaxed);
    }
    receipts
}

#[tokio::test]
async fn no_acknowledged_publish_is_lost_by_kill_9() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("queue.redb");
    let mut acknowledged = Vec::new();
    for round in 0..ROUNDS {
        let (victim, address) = start(&path).await;
        let count = Arc::new(AtomicUsize::new(0));
        let mut clients = JoinSet::new();
        for client in 0..CLIENTS {
            clients.spawn(publish(address.clone(), format!("r{round}-c{client}"), Arc::clone(&count)));
        }
        // Killed in the middle of work: after some answers, each round after another number.
        while count.load(Ordering::Relaxed) < 10 + 17 * round {
            sleep(Duration::from_millis(1)).await;
        }
        drop(victim);
        acknowledged.extend(clients.join_all().await.into_iter().flatten());
    }
    let stored = stored(&path).await;
    assert!(acknowledged.len() >= 10 * ROUNDS);
    for (body, receipt) in &acknowledged {
        let place = (receipt["queue"].as_str().unwrap().to_owned(), receipt["position"].as_u64().unwrap());
        assert_eq!(stored.get(&place), Some(&(receipt["id"].clone(), body.clone())), "{place:?}");
    }
    // Whatever else is there was sent and its answer cut off: at most one message of each client.
    assert!(stored.len() <= acknowledged.len() + ROUNDS * CLIENTS);
}

#[tokio::test]
async fn a_broker_killed_while_it_starts_starts_again() {
    for round in 0..12 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("queue.redb");
        let victim = spawn(&path);
        // From the first moment that there is any file, a little later each round.
        while fs::read_dir(&folder).unwrap().next().is_none() {
            sleep(Duration::from_micros(100)).await;
        }
        sleep(Duration::from_micros(500 * round)).await;
        drop(victim);
        assert_eq!(open(&path).unfinished(), 0);
    }
}

async fn stored(path: &Path) -> BTreeMap<(String, u64), (Value, String)> {
    let broker = open(path);
    let (address, task) = serve(&broker).await;
    let mut stored = BTreeMap::new();
    for queue in broker.queue_names() {
        let mut from = 0;
        loop {
            let url = format!("http://{address}/messages?queue={queue}&from={from}&limit=1000");
            let (status, page) = answer(reqwest::get(url).await.unwrap()).await;
            assert_eq!(status, 200);
            for message in page["messages"].as_array().unwrap() {
                let place = (queue.as_ref().to_owned(), message["position"].as_u64().unwrap());
                let body = message["body"].as_str().unwrap().to_owned();
                stored.insert(place, (message["id"].clone(), body));
            }
            if page["next"] == page["end"] {
                break;
            }
            from = page["next"].as_u64().unwrap();
        }
    }
    task.abort();
    stored
}

#[tokio::test]
async fn concurrent_publishes_share_waits_for_the_disk() {
    let served = Served::start(Options::default()).await;
    let mut tasks = JoinSet::new();
    for number in 0..200u8 {
        let broker = served.broker.clone();
        let body = vec![number].into();
        tasks.spawn(async move {
            broker.publish(lockstep_embedded::NewMessage { body, ..Default::default() }).await
        });
    }
    let ids: std::collections::BTreeSet<_> =
        tasks.join_all().await.into_iter().map(|published| published.unwrap().id).collect();
    assert_eq!(ids.len(), 200);
    assert_eq!(served.broker.unfinished(), 200);
    assert!(served.folder.path().exists());
}
