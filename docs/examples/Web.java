// A small web application for Java: each request compresses a page, with native memory of zlib and of direct buffers.
import com.sun.net.httpserver.HttpServer;
import java.io.ByteArrayOutputStream;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.util.concurrent.Executors;
import java.util.zip.GZIPOutputStream;

public class Web {
    public static void main(String[] arguments) throws Exception {
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0])), 0);
        server.setExecutor(Executors.newFixedThreadPool(8));
        server.createContext("/", exchange -> {
            ByteBuffer direct = ByteBuffer.allocateDirect(64 * 1024);
            byte[] page = new byte[direct.capacity()];
            direct.get(page);
            ByteArrayOutputStream compressed = new ByteArrayOutputStream();
            try (GZIPOutputStream gzip = new GZIPOutputStream(compressed)) {
                gzip.write(page);
            }
            exchange.sendResponseHeaders(200, compressed.size());
            compressed.writeTo(exchange.getResponseBody());
            exchange.close();
        });
        server.start();
    }
}
