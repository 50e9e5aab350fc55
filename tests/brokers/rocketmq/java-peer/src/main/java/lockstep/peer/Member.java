package lockstep.peer;

import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;

/** A member of a consumer group that lives until its standard input closes, then leaves gracefully. */
final class Member {
    private Member() {}

    /** Ends by exit: the client's own threads would keep a failed run alive. */
    static void run(String namesrv, String topic, String tags, String group, String instance,
            MessageListenerOrderly listener) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setInstanceName(instance);
        // On a busy machine the first answers take longer than the 3 s after which the client gives up its start.
        consumer.setMqClientApiTimeout(30_000);
        consumer.subscribe(topic, tags);
        consumer.registerMessageListener(listener);
        try {
            consumer.start();
        } catch (Exception failure) {
            failure.printStackTrace();
            System.exit(1);
        }
        System.err.println("started");
        while (System.in.read() >= 0) {
            // Whoever started us holds the other end.
        }
        consumer.shutdown();
        System.exit(0);
    }
}
