//! `demo`: what Lockstep is, in a quarter of a minute. A local broker, a sidecar that is killed and comes back, and a
//! shop that takes orders over HTTP; in the end the history checker judges what the shop wrote down.

mod consumer;
mod shop;

use std::{
    fs,
    io::{self, IsTerminal},
    net::Ipv4Addr,
    sync::Arc,
    time::Duration,
};

use futures_util::future::try_join_all;
use lockstep_history::{Anomaly, Event, History, How, Order as Ordering, Rules, Verdict, check};
use tokio::net::TcpListener;

use super::{Failure, block_on, dev::Folder, say};
use crate::{args::DemoArgs, config::SPAN, service::Signals};
use consumer::{Consumer, Receipt};
use shop::{Handled, Order, Shop, Trouble, by_customer};

const CUSTOMERS: [&str; 5] = ["ann", "ben", "cleo", "dan", "eve"];
/// Also how long a restarted sidecar waits for what the killed one may still have running.
const TIMEOUT_SECONDS: u64 = 2;

/// The whole demonstration.
struct Demo {
    folder: Folder,
    shop: Shop,
    callback: String,
    admin_port: u16,
    history: Vec<Event>,
    /// The last order of each customer.
    orders: [u32; CUSTOMERS.len()],
    colours: bool,
}

pub(super) fn demo(args: &DemoArgs) -> Result<(), Failure> {
    block_on(async {
        let mut signals = Signals::new().map_err(Failure::failed)?;
        let mut demo = Demo::prepare().await?;
        let (consumer, verdict) = tokio::select! {
            played = demo.play() => played?,
            () = signals.next() => return Err(Failure::failed("the demonstration was ended before its end")),
        };
        if args.keep {
            demo.stay(&consumer, &mut signals).await;
        }
        if !consumer.drain().await? {
            return Err(Failure::failed("the sidecar did not end cleanly"));
        }
        if verdict.is_clean() {
            Ok(())
        } else {
            Err(Failure::failed(format!("the promise was broken: {verdict}")))
        }
    })
}

impl Demo {
    async fn prepare() -> Result<Self, Failure> {
        let shop = Shop::new();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(Failure::failed)?;
        let callback = format!("http://{}/orders", listener.local_addr().map_err(Failure::failed)?);
        tokio::spawn(shop.clone().serve(listener));
        let folder = Folder::of(None)?;
        let admin_port = free_port().await?;
        fs::write(folder.path().join("group.yaml"), manifest(admin_port)).map_err(Failure::failed)?;
        let colours = io::stdout().is_terminal();
        let (history, orders) = (Vec::new(), [0; CUSTOMERS.len()]);
        Ok(Self { folder, shop, callback, admin_port, history, orders, colours })
    }

    async fn play(&mut self) -> Result<(Consumer, Verdict), Failure> {
        self.title(
            "A shop takes orders over HTTP. A sidecar brings them from a broker, in order for each customer.",
        );
        let consumer = self.start_consumer("first").await?;
        say(format!("  shop      {}", self.callback));
        say(format!("  sidecar   process {}, with a durable local broker in it", consumer.process_id()));
        self.in_order(&consumer).await?;
        self.retry(&consumer).await?;
        self.dead_letter(&consumer).await?;
        let consumer = self.crash(consumer).await?;
        let verdict = self.judge(&consumer).await?;
        self.summary(&verdict);
        Ok((consumer, verdict))
    }

    async fn start_consumer(&self, name: &str) -> Result<Consumer, Failure> {
        self.shop.set_consumer(name);
        Consumer::start(self.folder.path(), &self.callback, self.admin_port).await
    }

    /// Many customers at once, each in order.
    async fn in_order(&mut self, consumer: &Consumer) -> Result<(), Failure> {
        self.title("1  Order. 60 orders of five customers; the shop needs 25 ms for each.");
        let from = self.shop.count();
        let began = self.shop.now();
        self.publish(consumer, 12, Trouble::None).await?;
        self.shop.handled(from + 60).await;
        let took = Duration::from_micros(self.shop.now() - began);
        self.show_lines(&self.shop.since(from));
        let most = self.shop.most_running();
        say(format!("  up to {most} requests at a time, one of each customer: {:.1} s", took.as_secs_f64()));
        Ok(())
    }

    async fn retry(&mut self, consumer: &Consumer) -> Result<(), Failure> {
        self.title("2  Retry. The shop fails twice on an order of ben: his next one waits, ann's do not.");
        let from = self.shop.count();
        self.publish_one(consumer, 1, Trouble::FailsTwice).await?;
        self.publish_one(consumer, 1, Trouble::None).await?;
        self.publish_one(consumer, 0, Trouble::None).await?;
        self.shop.handled(from + 5).await;
        self.show_attempts(&self.shop.since(from));
        Ok(())
    }

    async fn dead_letter(&mut self, consumer: &Consumer) -> Result<(), Failure> {
        self.title(
            "3  Dead letter. An order of cleo that the shop can never handle is set aside, the next goes on.",
        );
        let from = self.shop.count();
        let receipt = self.publish_one(consumer, 2, Trouble::Nonsense).await?;
        self.publish_one(consumer, 2, Trouble::None).await?;
        self.shop.handled(from + 2).await;
        let view = consumer.until_done().await?;
        self.show_attempts(&self.shop.since(from));
        say(format!("  dead letters at the broker: {}", view.dead_letters));
        let (at, queue) = (self.shop.now(), Arc::from(receipt.queue));
        self.history.push(Event::Final { at, queue, position: receipt.position, how: How::DeadLetter });
        self.note_commits(consumer).await
    }

    /// Kills the sidecar, with the broker in it, in the middle of the work.
    async fn crash(&mut self, consumer: Consumer) -> Result<Consumer, Failure> {
        self.title("4  Crash. 200 more orders; in the middle of them the sidecar is killed (SIGKILL), broker and all.");
        self.shop.set_pace(Duration::from_millis(40));
        let from = self.shop.count();
        self.publish(&consumer, 40, Trouble::None).await?;
        say("  all 200 are acknowledged: they are on disk");
        self.shop.handled(from + 70).await;
        self.note_commits(&consumer).await?;
        let process = consumer.process_id();
        let at = self.shop.now();
        consumer.kill()?;
        let name = Arc::from("kill -9");
        self.history.push(Event::Fault { at, name, queue: None, duplicates: SPAN.into(), overlaps: 0 });
        say(format!("  process {process} killed after {} of them", self.shop.count() - from));
        let consumer = self.start_consumer("second").await?;
        say(format!(
            "  process {} started on the same files; it waits {TIMEOUT_SECONDS} s,",
            consumer.process_id()
        ));
        say("  the longest that a request of the killed one can still be handled");
        let done = self.shop.count();
        consumer.until_done().await?;
        self.show_lines(&self.shop.since(done));
        Ok(consumer)
    }

    async fn judge(&mut self, consumer: &Consumer) -> Result<Verdict, Failure> {
        self.note_commits(consumer).await?;
        let mut events = self.history.clone();
        events.extend(self.shop.events());
        Ok(check(&History::from(events), &Rules::new(Ordering::PerKey)))
    }

    fn summary(&self, verdict: &Verdict) {
        self.title(
            "5  What the history checker says of all that the shop, the broker and the commits have seen:",
        );
        let counts = verdict.counts;
        let wrong =
            |anomalies: &[Anomaly]| anomalies.iter().map(|anomaly| verdict.count(*anomaly)).sum::<u64>();
        let rows = [
            ("messages published", counts.published),
            ("answered 2xx", counts.done),
            ("dead letters", counts.finals),
            ("requests in total", counts.posts),
            ("repeated after the crash", counts.duplicates),
            ("lost", wrong(&[Anomaly::Loss])),
            ("out of order", wrong(&[Anomaly::Reorder, Anomaly::Replay, Anomaly::Overlap])),
            ("committed too early", wrong(&[Anomaly::UnsafeCommit])),
        ];
        for (what, count) in rows {
            say(format!("  {what:<26}{count:>6}"));
        }
        match verdict.is_clean() {
            true => say(self.paint("32", "  The promise was kept: order per customer, nothing lost.")),
            false => say(self.paint("31", &format!("  The promise was broken: {verdict}"))),
        }
    }

    async fn stay(&self, consumer: &Consumer, signals: &mut Signals) {
        self.title("Still here. Try it from another terminal; Ctrl-C ends it.");
        let broker = &consumer.broker;
        say(format!(
            "  curl {broker}/publish -H 'Lockstep-Key: ann' -H 'Content-Type: application/json' \\\n       -d '{{\"customer\": \"ann\", \"order\": 1000}}'"
        ));
        say(format!("  curl {broker}/dead-letters"));
        for path in ["status", "metrics"] {
            say(format!("  curl http://127.0.0.1:{}/{path}", self.admin_port));
        }
        let mut from = self.shop.count();
        loop {
            tokio::select! {
                () = signals.next() => return,
                () = self.shop.handled(from + 1) => self.show_attempts(&self.shop.since(from)),
            }
            from = self.shop.count();
        }
    }

    /// Publishes so many orders for each customer, all customers at once.
    async fn publish(&mut self, consumer: &Consumer, each: u32, trouble: Trouble) -> Result<(), Failure> {
        let lines = CUSTOMERS.iter().zip(self.orders).map(|(customer, last)| async move {
            let mut published = Vec::new();
            for order in last + 1..=last + each {
                let order = Order { customer: (*customer).to_owned(), order, trouble };
                let receipt = consumer.publish(&order).await?;
                published.push((order, receipt));
            }
            Ok::<_, Failure>(published)
        });
        let published = try_join_all(lines).await?;
        for (order, receipt) in published.into_iter().flatten() {
            self.note_published(&order, &receipt);
        }
        self.orders.iter_mut().for_each(|last| *last += each);
        Ok(())
    }

    async fn publish_one(
        &mut self,
        consumer: &Consumer,
        customer: usize,
        trouble: Trouble,
    ) -> Result<Receipt, Failure> {
        let (Some(name), Some(last)) = (CUSTOMERS.get(customer), self.orders.get_mut(customer)) else {
            return Err(Failure::failed("there is no such customer"));
        };
        *last += 1;
        let order = Order { customer: (*name).to_owned(), order: *last, trouble };
        let receipt = consumer.publish(&order).await?;
        self.note_published(&order, &receipt);
        Ok(receipt)
    }

    fn note_published(&mut self, order: &Order, receipt: &Receipt) {
        let (queue, key) = (Arc::from(receipt.queue.as_str()), Some(Arc::from(order.customer.as_str())));
        self.history.push(Event::Published { queue, position: receipt.position, key });
    }

    /// Looks at what is committed, which must never be ahead of what was answered.
    async fn note_commits(&mut self, consumer: &Consumer) -> Result<(), Failure> {
        let view = consumer.view().await?;
        let at = self.shop.now();
        for queue in view.queues {
            self.history.push(Event::Commit { at, queue: Arc::from(queue.name), position: queue.committed });
        }
        Ok(())
    }

    fn title(&self, text: &str) {
        say(format!("\n{}", self.paint("1", text)));
    }

    fn paint(&self, colour: &str, text: &str) -> String {
        if self.colours { format!("\x1b[{colour}m{text}\x1b[0m") } else { text.to_owned() }
    }

    fn show_lines(&self, handled: &[Handled]) {
        for (customer, orders) in by_customer(handled) {
            let orders: Vec<_> = orders.iter().map(u32::to_string).collect();
            say(format!("  {customer:<6}{}", shorten(&orders)));
        }
    }

    fn show_attempts(&self, handled: &[Handled]) {
        for one in handled {
            let Handled { after, order, attempt, status } = one;
            let text = format!("{status}");
            let status = self.paint(if *status == 200 { "32" } else { "31" }, &text);
            let at = after.as_secs_f64();
            say(format!(
                "  {at:7.3} s  {:<5} order {:<4} attempt {attempt}  ->  {status}",
                order.customer, order.order
            ));
        }
    }
}

/// A long line by its two ends.
fn shorten(orders: &[String]) -> String {
    const SHOWN: usize = 14;
    match (orders.get(..SHOWN), orders.last()) {
        (Some(first), Some(last)) if orders.len() > SHOWN + 1 => format!("{} ... {last}", first.join(" ")),
        _ => orders.join(" "),
    }
}

/// A port that nobody listened on a moment ago.
async fn free_port() -> Result<u16, Failure> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(Failure::failed)?;
    Ok(listener.local_addr().map_err(Failure::failed)?.port())
}

/// A usual manifest; `demo` and `dev` put a local broker in the place of its source.
fn manifest(admin_port: u16) -> String {
    format!(
        "apiVersion: lockstep.dev/v1alpha1
kind: ConsumerGroup
metadata:
  name: shop
spec:
  source:
    rocketmq:
      nameServers: [\"localhost:9876\"]
      consumerGroup: shop
      subscriptions: [{{topic: orders}}]
  ordering:
    mode: PerKey
  delivery:
    timeoutSeconds: {TIMEOUT_SECONDS}
    healthCheck: {{path: /healthz}}
  retry:
    whenExhausted: DeadLetter
    backoff: {{initialMilliseconds: 400, maxSeconds: 2}}
  sidecar:
    adminPort: {admin_port}
"
    )
}
