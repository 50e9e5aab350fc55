use std::path::Path;

use lockstep_embedded::{Embedded, Options};
use serde_json::Value;
use tokio::{net::TcpListener, task::JoinHandle};

/// A served broker in a folder of its own.
pub(crate) struct Served {
    pub(crate) broker: Embedded,
    pub(crate) address: String,
    pub(crate) folder: tempfile::TempDir,
    task: JoinHandle<()>,
}

impl Served {
    pub(crate) async fn start(options: Options) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let broker = Embedded::open(folder.path().join("queue.redb"), options).unwrap();
        Self::of(broker, folder).await
    }

    pub(crate) async fn of(broker: Embedded, folder: tempfile::TempDir) -> Self {
        let (address, task) = serve(&broker).await;
        Self { broker, address, folder, task }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        answer(reqwest::get(self.url(path)).await.unwrap()).await
    }

    pub(crate) async fn post(&self, path: &str, headers: &[(&str, &str)], body: Vec<u8>) -> (u16, Value) {
        let mut request = reqwest::Client::new().post(self.url(path)).body(body);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        answer(request.send().await.unwrap()).await
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(crate) async fn serve(broker: &Embedded) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let broker = broker.clone();
    (address, tokio::spawn(async move { broker.serve(listener).await.unwrap() }))
}

pub(crate) async fn answer(response: reqwest::Response) -> (u16, Value) {
    let status = response.status().as_u16();
    (status, serde_json::from_str(&response.text().await.unwrap()).unwrap())
}

pub(crate) fn open(path: &Path) -> Embedded {
    Embedded::open(path, Options::default()).unwrap()
}
