package lockstep.peer;

import java.io.FileOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * An orderly consumer that handles each message in WORK_MICROS and appends what it did to LOG, in the history
 * checker's line format.
 *
 * <p>Usage: Consume NAMESRV TOPIC TAGS GROUP INSTANCE LOG WORK_MICROS
 */
public final class Consume {
    private static final AtomicLong posts = new AtomicLong();

    private Consume() {}

    public static void main(String[] args) throws Exception {
        String instance = args[4];
        FileOutputStream log = new FileOutputStream(args[5], true);
        long workNanos = Long.parseLong(args[6]) * 1_000;
        MessageListenerOrderly listener = (messages, context) -> {
            for (MessageExt message : messages) {
                handle(log, instance, message, workNanos);
            }
            return ConsumeOrderlyStatus.SUCCESS;
        };
        Member.run(args[0], args[1], args[2], args[3], instance, listener);
    }

    private static void handle(FileOutputStream log, String instance, MessageExt message, long workNanos) {
        String post = instance + "-" + posts.incrementAndGet();
        String queue = message.getTopic() + "/" + message.getBrokerName() + "/" + message.getQueueId();
        write(log, "start at=" + micros() + " post=" + post + " queue=" + queue.replace("%", "%25")
                + " position=" + message.getQueueOffset() + " attempt=" + (message.getReconsumeTimes() + 1)
                + " consumer=" + instance);
        if (workNanos > 0) {
            LockSupport.parkNanos(workNanos);
        }
        write(log, "end at=" + micros() + " post=" + post + " outcome=200");
    }

    private static void write(FileOutputStream log, String line) {
        try {
            log.write((line + "\n").getBytes(StandardCharsets.UTF_8));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static long micros() {
        return ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now());
    }
}
