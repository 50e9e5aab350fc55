mod cases;
mod documents;
mod heat;
mod parsing;
mod reading;

use serde_json::Value;

use crate::{Mistakes, Parsed, Strictness, parse};

const ROCKETMQ: &str = "
apiVersion: lockstep.dev/v1alpha1
kind: ConsumerGroup
metadata: {name: orders, namespace: shop}
spec:
  source:
    rocketmq:
      nameServers: ['rocketmq-namesrv.mq:9876']
      consumerGroup: shop-orders
      subscriptions: [{topic: orders, tags: 'created || paid'}]
";

const RABBITMQ: &str = "
apiVersion: lockstep.dev/v1alpha1
kind: ConsumerGroup
metadata: {name: orders}
spec:
  source:
    rabbitmq:
      urls: ['amqp://rabbit.mq:5672']
      queues: [orders-0, orders-1]
";

const ACTIVEMQ: &str = "
apiVersion: lockstep.dev/v1alpha1
kind: ConsumerGroup
metadata: {name: orders}
spec:
  source:
    activemq:
      urls: ['tcp://activemq.mq:61616']
      queues: [orders]
";

/// Lays `over` over `base`; `null` removes.
fn patched(base: &str, over: &str) -> String {
    fn lay(base: &mut Value, over: Value) {
        match (base, over) {
            (Value::Object(base), Value::Object(over)) => {
                for (key, value) in over {
                    lay(base.entry(key).or_insert(Value::Null), value);
                }
            }
            (base, over) => *base = over,
        }
    }
    let mut value: Value = serde_yaml::from_str(base).unwrap();
    lay(&mut value, serde_yaml::from_str(over).unwrap());
    serde_yaml::to_string(&value).unwrap()
}

fn strict(text: &str) -> Result<Parsed, Mistakes> {
    parse(text, Strictness::Strict)
}

#[track_caller]
fn valid(text: &str) -> Parsed {
    strict(text).unwrap_or_else(|mistakes| panic!("{mistakes}\nin\n{text}"))
}
