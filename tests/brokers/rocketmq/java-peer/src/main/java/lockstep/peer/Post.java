package lockstep.peer;

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * What an application would write without Lockstep: an orderly consumer that POSTs each message and goes on after
 * a 2xx. The benchmark measures against it.
 *
 * <p>Usage: Post NAMESRV TOPIC TAGS GROUP INSTANCE URL
 */
public final class Post {
    private Post() {}

    public static void main(String[] args) throws Exception {
        URI url = URI.create(args[5]);
        HttpClient http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
        MessageListenerOrderly listener = (messages, context) -> {
            for (MessageExt message : messages) {
                if (!post(http, url, message)) {
                    return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
                }
            }
            return ConsumeOrderlyStatus.SUCCESS;
        };
        Member.run(args[0], args[1], args[2], args[3], args[4], listener);
    }

    private static boolean post(HttpClient http, URI url, MessageExt message) {
        HttpRequest request = HttpRequest.newBuilder(url)
                .header("content-type", "application/json")
                .header("webhook-id", message.getMsgId())
                .POST(HttpRequest.BodyPublishers.ofByteArray(message.getBody()))
                .build();
        try {
            return http.send(request, HttpResponse.BodyHandlers.discarding()).statusCode() / 100 == 2;
        } catch (Exception e) {
            return false;
        }
    }
}
