import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import net.jpountz.lz4.LZ4BlockInputStream;
import org.apache.spark.network.TransportContext;
import org.apache.spark.network.buffer.ManagedBuffer;
import org.apache.spark.network.client.ChunkReceivedCallback;
import org.apache.spark.network.client.TransportClient;
import org.apache.spark.network.client.TransportClientBootstrap;
import org.apache.spark.network.crypto.AuthClientBootstrap;
import org.apache.spark.network.sasl.SecretKeyHolder;
import org.apache.spark.network.server.NoOpRpcHandler;
import org.apache.spark.network.shuffle.protocol.BlockTransferMessage;
import org.apache.spark.network.shuffle.protocol.OpenBlocks;
import org.apache.spark.network.shuffle.protocol.StreamHandle;
import org.apache.spark.network.util.MapConfigProvider;
import org.apache.spark.network.util.TransportConf;

/** AskBlocks PORTS BLOCK...: asks each port for blocks, as an executor would: showing nothing, then a wrong secret. */
public class AskBlocks {
  private static final TransportConf CONF =
      new TransportConf("shuffle", new MapConfigProvider(Map.of("spark.authenticate", "true")));

  public static void main(String[] arguments) {
    for (String port : arguments[0].split(",")) {
      ask(Integer.parseInt(port), "nothing", List.of(), arguments);
      List<TransportClientBootstrap> guess = List.of(new AuthClientBootstrap(CONF, "local-0", new Guess()));
      ask(Integer.parseInt(port), "a wrong secret", guess, arguments);
    }
    System.exit(0);
  }

  private static void ask(int port, String shown, List<TransportClientBootstrap> bootstraps, String[] arguments) {
    try (TransportContext context = new TransportContext(CONF, new NoOpRpcHandler());
        TransportClient client = context.createClientFactory(bootstraps).createClient("127.0.0.1", port)) {
      for (int n = 1; n < arguments.length; n++) {
        System.out.println(port + " " + arguments[n] + " for " + shown + ": given " + block(client, arguments[n]));
      }
    } catch (Exception refused) {
      String why = String.valueOf(refused).lines().findFirst().orElse("");
      System.out.println(port + " for " + shown + ": refused " + why);
    }
  }

  private static String block(TransportClient client, String name) throws Exception {
    ByteBuffer answer = client.sendRpcSync(new OpenBlocks("local-0", "driver", new String[] {name}).toByteBuffer(), 20_000);
    StreamHandle handle = (StreamHandle) BlockTransferMessage.Decoder.fromByteBuffer(answer);
    CompletableFuture<byte[]> content = new CompletableFuture<>();
    client.fetchChunk(handle.streamId, 0, new ChunkReceivedCallback() {
      @Override public void onSuccess(int index, ManagedBuffer buffer) {
        try (InputStream stream = new LZ4BlockInputStream(buffer.createInputStream())) {
          content.complete(stream.readAllBytes());
        } catch (Exception unreadable) {
          content.completeExceptionally(unreadable);
        }
      }

      @Override public void onFailure(int index, Throwable cause) {
        content.completeExceptionally(cause);
      }
    });
    byte[] bytes = content.get(20, TimeUnit.SECONDS);
    return new String(bytes, StandardCharsets.ISO_8859_1).replaceAll("[^ -~]", ".");
  }

  private static final class Guess implements SecretKeyHolder {
    @Override public String getSaslUser(String application) {
      return "sparkSaslUser";
    }

    @Override public String getSecretKey(String application) {
      return "0".repeat(64);
    }
  }
}
