//! What a broker does for the driver.

use std::{fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

use lockstep_broker::{Clock, Problem, Problems};
use lockstep_model::{Epoch, Moment, QueueId, QueueName};
use tokio::sync::watch;

use crate::{Owners, Pace};

/// A future that outlives whoever made it.
pub type Later<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// What the driver is told at the start.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The process's clock.
    pub clock: Clock,
    /// The queues to consume, each once.
    pub queues: Vec<String>,
    /// Whether a queue is for one consumer at a time; otherwise any number share it, and nobody looks before.
    pub exclusive: bool,
    /// The queues that are this process's to take; `None` = there is no such word, and all are.
    pub hint: watch::Receiver<Option<Vec<String>>>,
    /// Epochs rise above this one.
    pub epoch_floor: Epoch,
    /// Signs of life until a connection has agreed on others.
    pub pulse: Pulse,
    /// How long a delivery may stay unsettled (a broker's acknowledgement timeout).
    pub settle_within: Option<Duration>,
}

/// How signs of life keep an ownership alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pulse {
    /// How long after the last one the next is asked for.
    pub look: Duration,
    /// How long behind the sending of the last answered one the ownership lasts: less than the broker takes to give the queue
    /// to another.
    pub lease: Duration,
}

/// What a consumer is opened for.
#[derive(Debug, Clone)]
pub struct Order {
    /// The queue.
    pub queue: QueueId,
    /// Its name.
    pub name: QueueName,
    /// The consumer's number, which rises with each of a queue.
    pub number: u64,
    /// Others may do the same at the same moment.
    pub contested: bool,
}

/// A consumer that is open.
pub struct Opened<S: Sessions> {
    /// The consumer.
    pub consumer: Arc<S::Consumer>,
    /// When the last question was sent that the broker answered.
    pub sent: Moment,
    /// Takes what comes, and ends with the consumer. The driver runs it as a task.
    pub receiving: Later<S::End>,
}

impl<S: Sessions> fmt::Debug for Opened<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened").field("sent", &self.sent).finish_non_exhaustive()
    }
}

/// What a look at an open consumer showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Looked {
    /// When it was asked for.
    pub sent: Moment,
    /// The queue's consumers; `None` or 0 = the broker can't say, which is no sign of life.
    pub consumers: Option<u32>,
    /// Messages are ready, and none came to us who have room for them.
    pub starved: bool,
}

/// Why there is no connection.
pub struct NotConnected {
    /// For people.
    pub problem: Problem,
    /// How soon to try again.
    pub pace: Pace,
    /// Ends when what it was refused for may have changed: then it is tried at once.
    pub changed: Option<Later<()>>,
}

impl fmt::Debug for NotConnected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NotConnected")
            .field("problem", &self.problem)
            .field("pace", &self.pace)
            .finish_non_exhaustive()
    }
}

/// Why a queue can't be consumed now.
#[derive(Debug, Clone)]
pub struct Failure {
    /// How soon to try again.
    pub pace: Pace,
    /// `None` for what is not worth a word to a person.
    pub problem: Option<Problem>,
}

/// What the end of a consumer means.
#[derive(Debug, Clone)]
pub enum Meaning {
    /// We ended it, or its connection is over, which is told by its own end.
    Nothing,
    /// It is over. `open` = something is left of it at the broker that has to be closed.
    Over {
        /// Whether to close it.
        open: bool,
        /// How soon to try again; the problem is the queue's.
        failure: Failure,
    },
}

/// One consumer of a queue, from its beginning to its end. All calls return at once.
pub trait Held: fmt::Debug + Send + Sync + 'static {
    /// Its number.
    fn number(&self) -> u64;
    /// It has become the queue's owner.
    fn owns(&self, epoch: Epoch, deadline: Moment);
    /// It is so for longer.
    fn renewed(&self, deadline: Moment);
    /// It may be: nothing more is handed out or settled through it.
    fn doubtful(&self);
    /// It was given back in order, so that nothing of it runs any more; [`Held::over`] follows.
    fn given_back(&self) {}
    /// It is not any more: nothing of it is handed out or settled.
    fn over(&self);
}

/// What a broker does. The driver runs the futures beside each other and drops them when it ends; each has to end by itself.
pub trait Sessions: fmt::Debug + Send + Sync + Sized + 'static {
    /// A connection; clones are the same one.
    type Connection: Clone + Send + Sync + 'static;
    /// A consumer of a queue.
    type Consumer: Held;
    /// What ended a consumer.
    type End: fmt::Debug + Send + 'static;
    /// How grave a trouble is: the least is shown.
    type Rank: Ord + fmt::Debug + Send + 'static;

    /// The rank of a connection's trouble, whose subject is empty.
    const CONNECTION: Self::Rank;
    /// The rank of a queue's trouble, whose subject is its name.
    const QUEUE: Self::Rank;

    /// Constant.
    fn settings(&self) -> Settings;
    /// The present troubles.
    fn problems(&self) -> &Problems<Self::Rank>;
    /// Who owns which queue, for the other halves.
    fn owners(&self) -> &Owners<Self::Consumer>;

    /// Connects to the first broker that can be reached, beginning with the one of that number (any number).
    fn connect(
        self: Arc<Self>,
        from: usize,
    ) -> impl Future<Output = Result<Self::Connection, NotConnected>> + Send;
    /// Says in the log who the broker is, and how signs of life were agreed on.
    fn connected(&self, connection: &Self::Connection) -> Pulse;
    /// Waits for a connection's end, and says what was wrong.
    fn ended(self: Arc<Self>, connection: Self::Connection) -> impl Future<Output = Problem> + Send;
    /// The connection is lost: forgets what was known by it.
    fn disconnected(&self) {}
    /// Closes a connection; `None` where there was none. Before the group is left, and where a connection does not answer.
    fn close(
        self: Arc<Self>,
        connection: Option<Self::Connection>,
        leaving: bool,
    ) -> impl Future<Output = ()> + Send;

    /// Opens a consumer; `None` = somebody else consumes the queue by now, and nothing is left at the broker.
    fn open(
        self: Arc<Self>,
        connection: Self::Connection,
        order: Order,
    ) -> impl Future<Output = Result<Option<Opened<Self>>, Failure>> + Send;
    /// A consumer was opened: what people have to know of it.
    fn opened(&self, _consumer: &Self::Consumer) {}
    /// Looks at an open consumer.
    fn look(self: Arc<Self>, consumer: Arc<Self::Consumer>) -> impl Future<Output = Looked> + Send;
    /// A look or a count was answered, or not.
    fn looked(&self, _queue: QueueId, _name: &str) {}
    /// What the end of a consumer means.
    fn meaning(&self, queue: QueueId, name: &str, end: &Self::End) -> Meaning;
    /// Closes a consumer. Whether it is sure that the broker has read of it, or that the connection is over.
    fn close_consumer(self: Arc<Self>, consumer: Arc<Self::Consumer>) -> impl Future<Output = bool> + Send;
    /// Counts the consumers of a queue that we don't consume.
    fn count(
        self: Arc<Self>,
        connection: Self::Connection,
        name: QueueName,
    ) -> impl Future<Output = Result<u32, Failure>> + Send;
    /// The group was left, and troubles are forgotten: what stands for good is told again. Also before the first is joined.
    fn left(&self) {}
}
