package lockstep.peer;

import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.DefaultConsumer;
import com.rabbitmq.client.Envelope;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

/**
 * What an application would write without Lockstep: a consumer that POSTs each message, acknowledges it after a 2xx, and
 * goes on then. It lives until its standard input closes. The benchmark measures against it.
 *
 * <p>Usage: Post AMQP_URL QUEUE URL
 */
public final class Post {
    /** As Spring's containers have it by default. */
    private static final int PREFETCH = 250;
    private static final long PAUSE_MILLIS = 1_000;

    private Post() {}

    /** Ends by exit: the client's own threads would keep a failed run alive. */
    public static void main(String[] args) {
        try {
            consume(args[0], args[1], URI.create(args[2]));
            while (System.in.read() >= 0) {
                // Whoever started us holds the other end.
            }
            System.exit(0);
        } catch (Exception failure) {
            failure.printStackTrace();
            System.exit(1);
        }
    }

    private static void consume(String broker, String queue, URI url) throws Exception {
        HttpClient http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
        ConnectionFactory factory = new ConnectionFactory();
        factory.setUri(broker);
        Connection connection = factory.newConnection("plain-java");
        Channel channel = connection.createChannel();
        channel.basicQos(PREFETCH);
        channel.basicConsume(queue, false, new DefaultConsumer(channel) {
            @Override
            public void handleDelivery(String tag, Envelope envelope, AMQP.BasicProperties properties, byte[] body)
                    throws IOException {
                try {
                    while (!post(http, url, envelope.getDeliveryTag(), body)) {
                        Thread.sleep(PAUSE_MILLIS);
                    }
                } catch (InterruptedException ended) {
                    return;
                }
                channel.basicAck(envelope.getDeliveryTag(), false);
            }
        });
    }

    private static boolean post(HttpClient http, URI url, long id, byte[] body) throws InterruptedException {
        HttpRequest request = HttpRequest.newBuilder(url)
                .header("content-type", "application/json")
                .header("webhook-id", Long.toString(id))
                .POST(HttpRequest.BodyPublishers.ofByteArray(body))
                .build();
        try {
            return http.send(request, HttpResponse.BodyHandlers.discarding()).statusCode() / 100 == 2;
        } catch (IOException failure) {
            return false;
        }
    }
}
