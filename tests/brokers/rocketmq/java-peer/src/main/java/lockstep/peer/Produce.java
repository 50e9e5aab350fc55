package lockstep.peer;

import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageConst;

/**
 * Sends COUNT messages of BYTES bytes with KEYS sharding keys, each key to one queue, and prints where each came to
 * lie: "queue position key".
 *
 * <p>Usage: Produce NAMESRV TOPIC TAG COUNT KEYS BYTES
 */
public final class Produce {
    private Produce() {}

    /** Ends by exit: the client's own threads would keep a failed run alive. */
    public static void main(String[] args) {
        try {
            produce(args[0], args[1], args[2], Integer.parseInt(args[3]), Integer.parseInt(args[4]),
                    Integer.parseInt(args[5]));
            System.exit(0);
        } catch (Exception e) {
            e.printStackTrace();
            System.exit(1);
        }
    }

    private static void produce(String namesrv, String topic, String tag, int count, int keys, int bytes)
            throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("produce");
        producer.setNamesrvAddr(namesrv);
        producer.setSendMsgTimeout(10_000);
        producer.start();
        for (int i = 0; i < count; i++) {
            int key = i % keys;
            Message message = new Message(topic, tag, "key-" + key, new byte[bytes]);
            MessageAccessor.putProperty(message, MessageConst.PROPERTY_SHARDING_KEY, "key-" + key);
            SendResult result = producer.send(
                    message, (queues, m, arg) -> queues.get((int) arg % queues.size()), key);
            System.out.printf("%s/%s/%d %d key-%d%n", topic, result.getMessageQueue().getBrokerName(),
                    result.getMessageQueue().getQueueId(), result.getQueueOffset(), key);
        }
        producer.shutdown();
    }
}
