package lockstep.peer;

import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Session;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.ActiveMQSession;

/**
 * What an application would write without Lockstep: a consumer that POSTs each message, acknowledges it by itself after a
 * 2xx, waits for the broker's answer, and goes on then. It lives until its standard input closes. The benchmark measures
 * against it.
 *
 * <p>Usage: Post BROKER_URL QUEUE PREFETCH URL
 */
public final class Post {
    private static final long PAUSE_MILLIS = 1_000;

    private Post() {}

    /** Ends by exit: the client's own threads would keep a failed run alive. */
    public static void main(String[] args) {
        try {
            MessageConsumer consumer = consumer(args[0], args[1], Integer.parseInt(args[2]));
            URI url = URI.create(args[3]);
            Thread loop = new Thread(() -> consume(consumer, url), "consume");
            loop.setDaemon(true);
            loop.start();
            while (System.in.read() >= 0) {
                // Whoever started us holds the other end.
            }
            System.exit(0);
        } catch (Exception failure) {
            failure.printStackTrace();
            System.exit(1);
        }
    }

    private static MessageConsumer consumer(String broker, String queue, int prefetch) throws Exception {
        ActiveMQConnectionFactory factory = new ActiveMQConnectionFactory(broker);
        factory.getPrefetchPolicy().setQueuePrefetch(prefetch);
        // As Lockstep has it: an acknowledgement counts when the broker has answered, which is after its disk.
        factory.setSendAcksAsync(false);
        ActiveMQConnection connection = (ActiveMQConnection) factory.createConnection();
        connection.start();
        Session session = connection.createSession(false, ActiveMQSession.INDIVIDUAL_ACKNOWLEDGE);
        return session.createConsumer(session.createQueue(queue));
    }

    private static void consume(MessageConsumer consumer, URI url) {
        HttpClient http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
        try {
            while (true) {
                Message message = consumer.receive();
                byte[] body = message.getBody(byte[].class);
                while (!post(http, url, message.getJMSMessageID(), body)) {
                    Thread.sleep(PAUSE_MILLIS);
                }
                message.acknowledge();
            }
        } catch (Exception failure) {
            failure.printStackTrace();
            System.exit(1);
        }
    }

    private static boolean post(HttpClient http, URI url, String id, byte[] body) throws InterruptedException {
        HttpRequest request = HttpRequest.newBuilder(url)
                .header("content-type", "application/json")
                .header("webhook-id", id)
                .POST(HttpRequest.BodyPublishers.ofByteArray(body))
                .build();
        try {
            return http.send(request, HttpResponse.BodyHandlers.discarding()).statusCode() / 100 == 2;
        } catch (IOException failure) {
            return false;
        }
    }
}
